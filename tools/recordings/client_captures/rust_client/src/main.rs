//! What an application does with rust-rdkafka: BOOTSTRAP TOPIC RECORDS.

use std::time::{Duration, Instant};

use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

const TIMEOUT: Duration = Duration::from_secs(30);

fn config(bootstrap: &str, client_id: &str) -> ClientConfig {
    let mut made = ClientConfig::new();
    made.set("bootstrap.servers", bootstrap)
        .set("client.id", client_id);
    made
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let (bootstrap, topic) = (&arguments[1], &arguments[2]);
    let count: usize = arguments[3].parse()?;

    let orders: BaseProducer = config(bootstrap, "orders")
        .set("compression.type", "gzip")
        .set("linger.ms", "5")
        .create()?;
    for number in 0..count {
        let (key, value) = (
            number.to_string(),
            format!("value {number} of many, much alike"),
        );
        orders
            .send(BaseRecord::to(topic).key(&key).payload(&value))
            .map_err(|(error, _)| error)?;
    }
    orders.flush(TIMEOUT)?;

    let payments: BaseProducer = config(bootstrap, "payments")
        .set("transactional.id", topic)
        .create()?;
    payments.init_transactions(TIMEOUT)?;
    for commits in [true, false] {
        payments.begin_transaction()?;
        payments
            .send(
                BaseRecord::<str, str>::to(topic)
                    .partition(0)
                    .payload("in a transaction"),
            )
            .map_err(|(error, _)| error)?;
        payments.flush(TIMEOUT)?;
        if commits {
            payments.commit_transaction(TIMEOUT)?;
        } else {
            payments.abort_transaction(TIMEOUT)?;
        }
    }

    let reader: BaseConsumer = config(bootstrap, "reader")
        .set("group.id", topic)
        .set("auto.offset.reset", "earliest")
        .create()?;
    reader.subscribe(&[topic])?;
    let (mut read, until) = (0, Instant::now() + TIMEOUT);
    while read <= count {
        if let Some(record) = reader.poll(Duration::from_secs(1)) {
            record?;
            read += 1;
        } else if Instant::now() > until {
            return Err(format!("{read} of {} records", count + 1).into());
        }
    }
    reader.commit_consumer_state(CommitMode::Sync)?;
    Ok(())
}
