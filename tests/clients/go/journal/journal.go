// Package journal is what copiers tell of their transactions: one JSON object per line on standard
// output.
package journal

import (
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strconv"
)

const partitions = 4

var lines = json.NewEncoder(os.Stdout)

// Journal numbers transactions; one of them at a time.
type Journal struct{ number int }

// A Copy is what is written of a record.
type Copy struct {
	Partition int32
	Value     string
}

// New returns the journal of a program that has no transaction yet.
func New() *Journal { return &Journal{-1} }

// Begins tells of a transaction with the values that were consumed.
func (j *Journal) Begins(values []string) []Copy {
	j.number++
	j.emit("began", "values", values)
	var copies []Copy
	for _, value := range values {
		number, err := strconv.Atoi(value)
		if err != nil {
			log.Fatal(err)
		}
		copies = append(copies, Copy{int32(number % partitions), fmt.Sprintf("%d:%s", j.number, value)})
	}
	return copies
}

// ToBeAborted tells whether this transaction is one of those that are aborted without need.
func (j *Journal) ToBeAborted() bool { return j.number%5 == 4 }

// Ended tells how the transaction ended.
func (j *Journal) Ended(committed bool) {
	if committed {
		j.emit("committed", "", nil)
	} else {
		j.emit("aborted", "", nil)
	}
}

// Failed tells what went wrong with it.
func (j *Journal) Failed(err error) { j.emit("error", "message", err.Error()) }

func (j *Journal) emit(event, key string, value any) {
	line := map[string]any{"event": event, "transaction": j.number}
	if key != "" {
		line[key] = value
	}
	if lines.Encode(line) != nil {
		os.Exit(1)
	}
}
