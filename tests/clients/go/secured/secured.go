// Package secured tells the libraries of this module of TLS and logins, as the file says that
// `SECURED` names; it tells nothing without it.
package secured

import (
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"hash"
	"log"
	"os"

	"github.com/IBM/sarama"
	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
	kafkaplain "github.com/segmentio/kafka-go/sasl/plain"
	kafkascram "github.com/segmentio/kafka-go/sasl/scram"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
	xdg "github.com/xdg-go/scram"
)

type file struct {
	Mechanism, User, Password, CA, Certificate, Key string
}

func read() *file {
	path, named := os.LookupEnv("SECURED")
	if !named {
		return nil
	}
	found := &file{}
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, found)
	}
	check(err)
	return found
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func (f *file) tls() *tls.Config {
	text, err := os.ReadFile(f.CA)
	check(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	config := &tls.Config{RootCAs: roots}
	if f.Key != "" {
		pair, err := tls.LoadX509KeyPair(f.Certificate, f.Key)
		check(err)
		config.Certificates = []tls.Certificate{pair}
	}
	return config
}

// Franz returns the options of franz-go.
func Franz() []kgo.Opt {
	found := read()
	if found == nil {
		return nil
	}
	options := []kgo.Opt{kgo.DialTLSConfig(found.tls())}
	user := scram.Auth{User: found.User, Pass: found.Password}
	switch found.Mechanism {
	case "PLAIN":
		login := plain.Auth{User: found.User, Pass: found.Password}
		options = append(options, kgo.SASL(login.AsMechanism()))
	case "SCRAM-SHA-256":
		options = append(options, kgo.SASL(user.AsSha256Mechanism()))
	case "SCRAM-SHA-512":
		options = append(options, kgo.SASL(user.AsSha512Mechanism()))
	}
	return options
}

// Sarama changes the settings of sarama.
func Sarama(config *sarama.Config) {
	found := read()
	if found == nil {
		return
	}
	config.Net.TLS.Enable = true
	config.Net.TLS.Config = found.tls()
	if found.Mechanism == "" {
		return
	}
	config.Net.SASL.Enable = true
	config.Net.SASL.Mechanism = sarama.SASLMechanism(found.Mechanism)
	config.Net.SASL.User = found.User
	config.Net.SASL.Password = found.Password
	config.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient {
		if found.Mechanism == "SCRAM-SHA-256" {
			return &login{generator: sha256.New}
		}
		return &login{generator: sha512.New}
	}
}

// A login by SCRAM, which sarama leaves to its users.
type login struct {
	generator    func() hash.Hash
	conversation *xdg.ClientConversation
}

func (l *login) Begin(user, password, authorization string) error {
	client, err := xdg.HashGeneratorFcn(l.generator).NewClient(user, password, authorization)
	if err == nil {
		l.conversation = client.NewConversation()
	}
	return err
}

func (l *login) Step(challenge string) (string, error) { return l.conversation.Step(challenge) }

func (l *login) Done() bool { return l.conversation.Done() }

// KafkaGo returns what the dialers and transports of kafka-go take; nil without TLS.
func KafkaGo() (*tls.Config, sasl.Mechanism) {
	found := read()
	if found == nil {
		return nil, nil
	}
	switch found.Mechanism {
	case "PLAIN":
		return found.tls(), kafkaplain.Mechanism{Username: found.User, Password: found.Password}
	case "SCRAM-SHA-256", "SCRAM-SHA-512":
		algorithm := kafkascram.SHA256
		if found.Mechanism == "SCRAM-SHA-512" {
			algorithm = kafkascram.SHA512
		}
		mechanism, err := kafkascram.Mechanism(algorithm, found.User, found.Password)
		check(err)
		return found.tls(), mechanism
	}
	return found.tls(), nil
}

// Dialer returns the dialer of readers of kafka-go.
func Dialer() *kafka.Dialer {
	config, mechanism := KafkaGo()
	dialer := *kafka.DefaultDialer
	dialer.TLS, dialer.SASLMechanism = config, mechanism
	return &dialer
}
