// Copies a topic in transactions that have the consumed offsets in them: sarama.
package main

import (
	"errors"
	"log"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/IBM/sarama"

	"jbodlab/clients/events"
	"jbodlab/clients/journal"
)

const batch = 20

var errAborted = errors.New("aborted")

// One transaction at a time, whatever claim it is of.
type copier struct {
	sync.Mutex
	told     *journal.Journal
	target   string
	name     string
	producer sarama.AsyncProducer
}

func main() {
	bootstrap, source, target, name := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	brokers := strings.Split(bootstrap, ",")
	leave := events.UntilLeave()
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Consumer.IsolationLevel = sarama.ReadCommitted
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Transaction.ID = name
	config.Producer.Transaction.Timeout = 10 * time.Second
	config.Net.MaxOpenRequests = 1
	producer, err := sarama.NewAsyncProducer(brokers, config)
	if err != nil {
		log.Fatal(err)
	}
	member, err := sarama.NewConsumerGroup(brokers, name, config)
	if err != nil {
		log.Fatal(err)
	}
	copies := &copier{told: journal.New(), target: target, name: name, producer: producer}
	go func() {
		for err := range producer.Errors() {
			log.Print(err)
		}
	}()
	for leave.Err() == nil {
		if err := member.Consume(leave, []string{source}, copies); err != nil && leave.Err() == nil {
			log.Print(err)
			time.Sleep(100 * time.Millisecond)
		}
	}
	if err := member.Close(); err != nil {
		log.Fatal(err)
	}
	if err := producer.Close(); err != nil {
		log.Fatal(err)
	}
}

func (c *copier) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (c *copier) Cleanup(sarama.ConsumerGroupSession) error { return nil }

// Returns after what was not committed: then all claims begin anew, where the group has committed.
func (c *copier) ConsumeClaim(
	session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim,
) error {
	for {
		select {
		case first, more := <-claim.Messages():
			if !more {
				return nil
			}
			messages := []*sarama.ConsumerMessage{first}
			for len(messages) < batch && len(claim.Messages()) > 0 {
				messages = append(messages, <-claim.Messages())
			}
			if !c.copied(session, messages) {
				return errAborted
			}
		case <-session.Context().Done():
			return nil
		}
	}
}

func (c *copier) copied(
	session sarama.ConsumerGroupSession, messages []*sarama.ConsumerMessage,
) bool {
	c.Lock()
	defer c.Unlock()
	if session.Context().Err() != nil {
		return false
	}
	if err := c.producer.BeginTxn(); err != nil {
		log.Fatal(err)
	}
	var values []string
	for _, message := range messages {
		values = append(values, string(message.Value))
	}
	for _, each := range c.told.Begins(values) {
		c.producer.Input() <- &sarama.ProducerMessage{
			Topic: c.target, Partition: each.Partition, Value: sarama.StringEncoder(each.Value),
		}
	}
	last := messages[len(messages)-1]
	group := sarama.NewConsumerGroupMetadataFromSession(session, c.name, nil)
	committed := c.done(func() error {
		return c.producer.AddMessageToTxnWithGroupMetadata(last, group, nil)
	}) && !c.told.ToBeAborted() && c.done(c.producer.CommitTxn)
	if !committed && !c.done(c.producer.AbortTxn) {
		log.Fatal("a transaction can be neither committed nor aborted")
	}
	c.told.Ended(committed)
	return committed
}

// Tries until it is done, or until the transaction can only be aborted.
func (c *copier) done(try func() error) bool {
	for {
		err := try()
		if err == nil {
			return true
		}
		c.told.Failed(err)
		status := c.producer.TxnStatus()
		if status&sarama.ProducerTxnFlagFatalError != 0 {
			log.Fatal(err)
		}
		if status&sarama.ProducerTxnFlagAbortableError != 0 {
			return false
		}
	}
}
