package record

// Fits holds fields against a declared type.
var Fits = fits
