// Writes a record to a closed cluster and reads it again, by a file as the lab makes it: franz-go.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const within = 30 * time.Second

type file struct {
	Brokers []string `json:"seed_brokers"`
	TLS     struct {
		CA   string `json:"ca_file"`
		Cert string `json:"cert_file"`
		Key  string `json:"key_file"`
	} `json:"tls"`
	SASL *struct {
		Mechanism string `json:"mechanism"`
		User      string `json:"user"`
		Password  string `json:"password"`
	} `json:"sasl"`
}

func main() {
	path, topic := os.Args[1], os.Args[2]
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	client, err := kgo.NewClient(append(options(path),
		kgo.DefaultProduceTopic(topic),
		kgo.ConsumerGroup(topic),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)...)
	check(err)
	defer client.Close()
	check(client.ProduceSync(ctx, kgo.StringRecord("value")).FirstErr())
	fetches := client.PollFetches(ctx)
	check(fetches.Err())
	fetches.EachRecord(func(record *kgo.Record) { fmt.Println(string(record.Value)) })
}

func options(path string) []kgo.Opt {
	text, err := os.ReadFile(path)
	check(err)
	var said file
	check(json.Unmarshal(text, &said))
	root, err := os.ReadFile(said.TLS.CA)
	check(err)
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(root)
	if said.TLS.Cert != "" {
		pair, err := tls.LoadX509KeyPair(said.TLS.Cert, said.TLS.Key)
		check(err)
		config.Certificates = []tls.Certificate{pair}
	}
	found := []kgo.Opt{kgo.SeedBrokers(said.Brokers...), kgo.DialTLSConfig(config)}
	if login := said.SASL; login != nil {
		auth := scram.Auth{User: login.User, Pass: login.Password}
		found = append(found, kgo.SASL(auth.AsSha512Mechanism()))
	}
	return found
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
