"""The evidence: pages made from the compact results of studies, with what people say of them and no number typed."""
