"""The Helm chart, and what renders it from the manifests."""
