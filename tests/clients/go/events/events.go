// Package events is what the programs of this module say and hear: one JSON object per line on
// standard output, and on standard input the command that ends them.
package events

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"strconv"
	"sync"
	"time"
)

var (
	output sync.Mutex
	lines  = json.NewEncoder(os.Stdout)
)

// Arguments returns where to consume, and in which mode.
func Arguments() (bootstrap, topic, group, mode string) {
	return os.Args[1], os.Args[2], os.Args[3], os.Args[4]
}

// UntilLeave returns a context that ends with the command "leave", or with standard input.
func UntilLeave() context.Context {
	ctx, leave := context.WithCancel(context.Background())
	go func() {
		defer leave()
		commands := bufio.NewScanner(os.Stdin)
		for commands.Scan() && commands.Text() != "leave" {
		}
	}()
	return ctx
}

// Numbers sends the numbers from 0 on, so many a second, until a context ends.
func Numbers(leave context.Context, rate string, send func(number string)) {
	perSecond, err := strconv.Atoi(rate)
	if err != nil {
		panic(err)
	}
	begin := time.Now()
	for number := 0; leave.Err() == nil; number++ {
		send(strconv.Itoa(number))
		due := time.Duration(number+1) * time.Second / time.Duration(perSecond)
		time.Sleep(time.Until(begin.Add(due)))
	}
}

// Acknowledged tells of one number that was written.
func Acknowledged(number []byte) {
	emit(map[string]any{"event": "acknowledged", "value": string(number)})
}

// Assigned tells all partitions that this member has now.
func Assigned(partitions []int32) {
	emit(map[string]any{"event": "assigned", "partitions": append([]int32{}, partitions...)})
}

// Record tells of one record.
func Record(partition int32, offset int64, value []byte) {
	emit(map[string]any{
		"event": "record", "partition": partition, "offset": offset, "value": string(value),
	})
}

// Committed tells of offsets whose commit was acknowledged, by partition.
func Committed(offsets map[int32]int64) {
	emit(map[string]any{"event": "committed", "offsets": offsets})
}

// Error tells of what went wrong and is tried again.
func Error(err error) {
	emit(map[string]any{"event": "error", "message": err.Error()})
}

func emit(event map[string]any) {
	output.Lock()
	defer output.Unlock()
	if lines.Encode(event) != nil {
		os.Exit(1)
	}
}
