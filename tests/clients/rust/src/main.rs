//! A member of a consumer group: rdkafka, with either protocol.

use std::collections::BTreeSet;
use std::env;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::{Message, Offset};
use serde_json::{json, Map};

const POLL: Duration = Duration::from_millis(100);
const RECORDS_PER_COMMIT_MAX: usize = 100;

fn main() {
    let arguments: Vec<String> = env::args().collect();
    let [_, bootstrap, topic, group, mode] = arguments.as_slice() else {
        panic!("wanted: bootstrap, topic, group, mode");
    };
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", bootstrap)
        .set("group.id", group)
        .set("group.protocol", mode)
        .set("auto.offset.reset", "earliest")
        .set("enable.auto.commit", "false");
    if mode == "classic" {
        config.set("session.timeout.ms", "45000");
        config.set("heartbeat.interval.ms", "500");
    }
    let consumer: BaseConsumer = config.create().expect("a consumer");
    consumer.subscribe(&[topic]).expect("a subscription");

    let leaves = leaves();
    let mut held = BTreeSet::new();
    while !leaves.load(Ordering::Relaxed) {
        let mut taken = 0;
        while let Some(polled) = consumer.poll(POLL) {
            match polled {
                Ok(record) => {
                    let value = String::from_utf8_lossy(record.payload().unwrap_or(b""));
                    let (partition, offset) = (record.partition(), record.offset());
                    println!(
                        "{}",
                        json!({"event": "record", "partition": partition, "offset": offset, "value": value})
                    );
                    taken += 1;
                }
                Err(error) => tell(&error),
            }
            if taken == RECORDS_PER_COMMIT_MAX {
                break;
            }
        }
        if taken > 0 {
            commit(&consumer);
        }
        let now: BTreeSet<i32> = consumer
            .assignment()
            .map(|list| list.elements().iter().map(|each| each.partition()).collect())
            .unwrap_or_default();
        if now != held {
            println!("{}", json!({"event": "assigned", "partitions": now}));
            held = now;
        }
    }
}

/// Commits what was polled of the partitions that this member has.
fn commit(consumer: &BaseConsumer) {
    let polled = consumer.position().expect("positions");
    match consumer.commit_consumer_state(CommitMode::Sync) {
        Ok(()) => {
            let mut offsets = Map::new();
            for each in polled.elements() {
                if let Offset::Offset(offset) = each.offset() {
                    offsets.insert(each.partition().to_string(), json!(offset));
                }
            }
            println!("{}", json!({"event": "committed", "offsets": offsets}));
        }
        Err(KafkaError::ConsumerCommit(RDKafkaErrorCode::NoOffset)) => {}
        Err(error) => tell(&error),
    }
}

fn tell(error: &KafkaError) {
    println!("{}", json!({"event": "error", "message": error.to_string()}));
}

/// Turns true with the command to leave, or with the end of standard input.
fn leaves() -> Arc<AtomicBool> {
    let told = Arc::new(AtomicBool::new(false));
    let teller = told.clone();
    thread::spawn(move || {
        for line in io::stdin().lines() {
            if line.map_or(true, |command| command == "leave") {
                break;
            }
        }
        teller.store(true, Ordering::Relaxed);
    });
    told
}
