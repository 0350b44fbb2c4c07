// What an application does with sarama: BOOTSTRAP TOPIC RECORDS.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"

	"github.com/IBM/sarama"
)

type reader struct{}

func (reader) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (reader) Cleanup(sarama.ConsumerGroupSession) error { return nil }
func (reader) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		session.MarkMessage(message, "")
		done <- struct{}{}
	}
	return nil
}

var done = make(chan struct{}, 1000)

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	brokers, topic := []string{os.Args[1]}, os.Args[2]
	count, err := strconv.Atoi(os.Args[3])
	must(err)
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.ClientID = "orders"
	config.Producer.Return.Successes = true
	config.Producer.Compression = sarama.CompressionZSTD
	config.Consumer.Offsets.Initial = sarama.OffsetOldest

	admin, err := sarama.NewClusterAdmin(brokers, config)
	must(err)
	must(admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: 2, ReplicationFactor: 1}, false))
	must(admin.Close())

	producer, err := sarama.NewSyncProducer(brokers, config)
	must(err)
	for first := 0; first < count; first += 30 {
		var messages []*sarama.ProducerMessage
		for number := first; number < first+30 && number < count; number++ {
			messages = append(messages, &sarama.ProducerMessage{
				Topic: topic,
				Key:   sarama.StringEncoder(strconv.Itoa(number)),
				Value: sarama.StringEncoder(fmt.Sprintf("value %d of many, much alike", number)),
			})
		}
		must(producer.SendMessages(messages))
	}
	must(producer.Close())

	transactional := *config
	transactional.ClientID = "payments"
	transactional.Producer.Idempotent = true
	transactional.Producer.RequiredAcks = sarama.WaitForAll
	transactional.Producer.Transaction.ID = topic
	transactional.Net.MaxOpenRequests = 1
	payments, err := sarama.NewSyncProducer(brokers, &transactional)
	must(err)
	for _, end := range []func() error{payments.CommitTxn, payments.AbortTxn} {
		must(payments.BeginTxn())
		_, _, err = payments.SendMessage(&sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder("in a transaction")})
		must(err)
		must(end())
	}
	must(payments.Close())

	group, err := sarama.NewConsumerGroup(brokers, topic, config)
	must(err)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		for left := count; left > 0; left-- {
			<-done
		}
		cancel()
	}()
	for ctx.Err() == nil {
		if err := group.Consume(ctx, []string{topic}, reader{}); err != nil && ctx.Err() == nil {
			log.Fatal(err)
		}
	}
	must(group.Close())
}
