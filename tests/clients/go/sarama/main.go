// A member of a consumer group: sarama. It does not tell which commits were acknowledged.
package main

import (
	"errors"
	"log"
	"strings"
	"time"

	"github.com/IBM/sarama"

	"jbodlab/clients/events"
)

type handler struct{ topic string }

func (h handler) Setup(session sarama.ConsumerGroupSession) error {
	events.Assigned(session.Claims()[h.topic])
	return nil
}

func (h handler) Cleanup(sarama.ConsumerGroupSession) error {
	events.Assigned(nil)
	return nil
}

func (h handler) ConsumeClaim(
	session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim,
) error {
	for {
		select {
		case message, more := <-claim.Messages():
			if !more {
				return nil
			}
			events.Record(message.Partition, message.Offset, message.Value)
			session.MarkMessage(message, "")
			if len(claim.Messages()) == 0 {
				session.Commit()
			}
		case <-session.Context().Done():
			return nil
		}
	}
}

func main() {
	bootstrap, topic, group, _ := events.Arguments()
	leave := events.UntilLeave()
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Consumer.Return.Errors = true
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Group.Session.Timeout = 45 * time.Second
	config.Consumer.Group.Heartbeat.Interval = 500 * time.Millisecond
	member, err := sarama.NewConsumerGroup(strings.Split(bootstrap, ","), group, config)
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		for err := range member.Errors() {
			events.Error(err)
		}
	}()
	for leave.Err() == nil {
		err := member.Consume(leave, []string{topic}, handler{topic})
		if err != nil && !errors.Is(err, leave.Err()) {
			events.Error(err)
			time.Sleep(100 * time.Millisecond)
		}
	}
	if err := member.Close(); err != nil {
		log.Fatal(err)
	}
}
