// A member of a consumer group: sarama. It does not tell which commits were acknowledged. Or a
// producer.
package main

import (
	"context"
	"errors"
	"log"
	"strings"
	"sync"
	"time"

	"github.com/IBM/sarama"

	"jbodlab/clients/events"
	"jbodlab/clients/secured"
)

type handler struct {
	topic string
	// Whether it commits itself.
	commits bool
}

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
			if h.commits && len(claim.Messages()) == 0 {
				session.Commit()
			}
		case <-session.Context().Done():
			return nil
		}
	}
}

func main() {
	bootstrap, topic, group, mode := events.Arguments()
	leave := events.UntilLeave()
	config := sarama.NewConfig()
	secured.Sarama(config)
	config.Consumer.Return.Errors = true
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	switch mode {
	case "create":
		create(bootstrap, topic, config)
	case "produce":
		produce(leave, bootstrap, topic, group)
	case "default":
		consume(leave, bootstrap, topic, group, config, false)
	default:
		config.Version = sarama.MaxVersion
		config.Consumer.Offsets.AutoCommit.Enable = false
		config.Consumer.Group.Session.Timeout = 45 * time.Second
		config.Consumer.Group.Heartbeat.Interval = 500 * time.Millisecond
		consume(leave, bootstrap, topic, group, config, true)
	}
}

func consume(
	leave context.Context, bootstrap, topic, group string, config *sarama.Config, commits bool,
) {
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
		err := member.Consume(leave, []string{topic}, handler{topic, commits})
		if err != nil && !errors.Is(err, leave.Err()) {
			events.Error(err)
			time.Sleep(100 * time.Millisecond)
		}
	}
	if err := member.Close(); err != nil {
		log.Fatal(err)
	}
}

// Creates the topic.
func create(bootstrap, topic string, config *sarama.Config) {
	admin, err := sarama.NewClusterAdmin(strings.Split(bootstrap, ","), config)
	if err == nil {
		detail := &sarama.TopicDetail{NumPartitions: 3, ReplicationFactor: 3}
		err = admin.CreateTopic(topic, detail, false)
	}
	if err != nil {
		log.Fatal(err)
	}
	if err := admin.Close(); err != nil {
		log.Fatal(err)
	}
}

// Writes numbers as the library does unless told otherwise, but to every replica in sync.
func produce(leave context.Context, bootstrap, topic, rate string) {
	config := sarama.NewConfig()
	secured.Sarama(config)
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Successes = true
	producer, err := sarama.NewAsyncProducer(strings.Split(bootstrap, ","), config)
	if err != nil {
		log.Fatal(err)
	}
	var told sync.WaitGroup
	told.Go(func() {
		for message := range producer.Successes() {
			number, _ := message.Value.Encode()
			events.Acknowledged(number)
		}
	})
	told.Go(func() {
		for err := range producer.Errors() {
			events.Error(err)
		}
	})
	events.Numbers(leave, rate, func(number string) {
		producer.Input() <- &sarama.ProducerMessage{
			Topic: topic, Value: sarama.StringEncoder(number),
		}
	})
	producer.AsyncClose()
	told.Wait()
}
