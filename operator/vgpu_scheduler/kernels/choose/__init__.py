"""The second step of a fit: choosing among candidates. Each way of choosing is a file; ``dispatch`` selects it.

Every way is a kernel with the same arguments:

``columns``, ``request``, ``scratch``, ``here``
    The device matrix, the pod's claims, work space, and the claim on its node.
``found``
    The number of entries of ``scratch.candidates``, in the order in which their cards were tried.

It writes numbers of candidates to ``scratch.chosen``, the preferred ones first, and returns how many of these can be
taken together. If this is less than the claim wants, the claim does not fit; more specific reasons are then written to
``here.counts`` and ``here.cards``.

Devices that are shared by amounts are tried in another order; ``scopes`` restricts which of them are tried.
"""
