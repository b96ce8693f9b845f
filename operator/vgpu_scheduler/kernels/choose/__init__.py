"""The second step of a fit: which candidates a claim gets. Each way of choosing is a file; ``dispatch`` knows them all.

Every way is a kernel with the same arguments:

``columns``, ``request``, ``scratch``, ``here``
    The device matrix, the pod's claims, work space, and the claim on its node.
``found``
    How many entries of ``scratch.candidates`` there are, in the order in which their cards were tried.

It writes numbers of candidates to ``scratch.chosen``, those that are to be taken first, and returns how many of these
go together. They are taken if that is at least what the claim wants. If it is less, the claim does not fit; a way that
has more to say of why writes to ``here.counts`` and ``here.cards``.

Devices that are shared by amounts alone are tried in an order of their own; ``scopes`` chooses which of them are tried.
"""
