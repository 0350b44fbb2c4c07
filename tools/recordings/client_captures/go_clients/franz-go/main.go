// What an application does with franz-go: BOOTSTRAP TOPIC RECORDS.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func client(bootstrap string, id string, options ...kgo.Opt) *kgo.Client {
	made, err := kgo.NewClient(append(options, kgo.SeedBrokers(bootstrap), kgo.ClientID(id))...)
	must(err)
	return made
}

func main() {
	bootstrap, topic := os.Args[1], os.Args[2]
	count, err := strconv.Atoi(os.Args[3])
	must(err)
	ctx := context.Background()

	orders := client(bootstrap, "orders", kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(kgo.ZstdCompression()))
	wanted := kmsg.NewCreateTopicsRequestTopic()
	wanted.Topic, wanted.NumPartitions, wanted.ReplicationFactor = topic, 2, 1
	creating := kmsg.NewPtrCreateTopicsRequest()
	creating.Topics = append(creating.Topics, wanted)
	_, err = creating.RequestWith(ctx, orders)
	must(err)
	for number := 0; number < count; number++ {
		record := kgo.KeyStringRecord(strconv.Itoa(number), fmt.Sprintf("value %d of many, much alike", number))
		orders.Produce(ctx, record, func(_ *kgo.Record, err error) { must(err) })
	}
	must(orders.Flush(ctx))
	orders.Close()

	payments := client(bootstrap, "payments", kgo.DefaultProduceTopic(topic), kgo.TransactionalID(topic))
	for _, end := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort} {
		must(payments.BeginTransaction())
		must(payments.ProduceSync(ctx, kgo.StringRecord("in a transaction")).FirstErr())
		must(payments.EndTransaction(ctx, end))
	}
	payments.Close()

	reader := client(bootstrap, "reader", kgo.ConsumerGroup(topic), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	for read := 0; read < count+1; {
		fetches := reader.PollFetches(ctx)
		for _, failed := range fetches.Errors() {
			log.Fatal(failed.Err)
		}
		read += fetches.NumRecords()
	}
	must(reader.CommitUncommittedOffsets(ctx))
	reader.Close()
}
