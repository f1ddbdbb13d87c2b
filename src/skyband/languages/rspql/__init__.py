"""RSP-QL: SPARQL with windows, read with rdflib's parser and written back."""
