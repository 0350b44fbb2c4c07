// What an application does with segmentio's kafka-go: BOOTSTRAP TOPIC RECORDS.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go"
)

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	bootstrap, topic := os.Args[1], os.Args[2]
	count, err := strconv.Atoi(os.Args[3])
	must(err)
	ctx := context.Background()

	connection, err := kafka.Dial("tcp", bootstrap)
	must(err)
	must(connection.CreateTopics(kafka.TopicConfig{Topic: topic, NumPartitions: 2, ReplicationFactor: 1}))
	must(connection.Close())

	writer := &kafka.Writer{Addr: kafka.TCP(bootstrap), Topic: topic, Compression: kafka.Zstd,
		BatchTimeout: 10 * time.Millisecond, RequiredAcks: kafka.RequireAll}
	for first := 0; first < count; first += 30 {
		var messages []kafka.Message
		for number := first; number < first+30 && number < count; number++ {
			messages = append(messages, kafka.Message{
				Key: []byte(strconv.Itoa(number)), Value: []byte(fmt.Sprintf("value %d of many, much alike", number))})
		}
		must(writer.WriteMessages(ctx, messages...))
	}
	must(writer.Close())

	reader := kafka.NewReader(kafka.ReaderConfig{Brokers: []string{bootstrap}, GroupID: topic, Topic: topic,
		StartOffset: kafka.FirstOffset, MaxWait: 200 * time.Millisecond})
	for read := 0; read < count; read++ {
		_, err := reader.ReadMessage(ctx)
		must(err)
	}
	must(reader.Close())
}
