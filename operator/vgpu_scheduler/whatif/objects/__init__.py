"""Objects of Kubernetes as files have them: their fields, containers, amounts and cards, as they are written."""
