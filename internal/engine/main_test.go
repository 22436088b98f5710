package engine_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/carillonhq/carillon/internal/store/storetest"
)

func TestMain(m *testing.M) {
	if err := storetest.SameLives(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	os.Exit(m.Run())
}
