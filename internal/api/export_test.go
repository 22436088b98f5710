package api

// Objects are the descriptions of the schemas of the document, by name.
func Objects() map[string]string { return objects() }
