// Command carillon sends the right message to the right person, at the right moment, once, and never too often.
package main

import "github.com/carillonhq/carillon"

func main() { carillon.Main(carillon.Options{Name: "carillon"}) }
