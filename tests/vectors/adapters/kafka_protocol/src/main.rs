//! An adapter of the crate kafka-protocol for `kafkawire conformance`: it decodes bytes, and answers with what it encodes.

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::{ApiKey, RequestKind, ResponseKind};
use serde_json::{json, Value};
use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::panic::catch_unwind;

fn coded(key: ApiKey, request: bool, data: Vec<u8>, version: i16) -> Result<String, String> {
    let (mut bytes, mut out) = (Bytes::from(data), BytesMut::new());
    let done = if request {
        RequestKind::decode(key, &mut bytes, version).and_then(|m| m.encode(&mut out, version))
    } else {
        ResponseKind::decode(key, &mut bytes, version).and_then(|m| m.encode(&mut out, version))
    };
    done.map_err(|error| format!("{error:#}"))?;
    if bytes.is_empty() {
        Ok(hex::encode(out))
    } else {
        Err(format!("{} bytes more", bytes.len()))
    }
}

fn answer(question: &Value, names: &HashMap<String, ApiKey>) -> Value {
    let message = question["message"].as_str().unwrap_or("");
    let version = question["version"].as_i64().unwrap_or(-1) as i16;
    let name = message.strip_suffix("Request").or(message.strip_suffix("Response"));
    let Some(key) = name.and_then(|name| names.get(name)).copied() else {
        return json!({"unsupported": true});
    };
    let range = key.valid_versions();
    if question["op"] != "decode" || version < range.min || version > range.max {
        return json!({"unsupported": true});
    }
    let data = hex::decode(question["bytes"].as_str().unwrap_or("")).unwrap();
    match catch_unwind(|| coded(key, message.ends_with("Request"), data, version)) {
        Ok(Ok(found)) => json!({"bytes": found}),
        Ok(Err(error)) if error.contains("specified version not supported") => json!({"unsupported": true}),
        Ok(Err(error)) => json!({"error": error}),
        Err(_) => json!({"error": "panic"}),
    }
}

fn main() {
    std::panic::set_hook(Box::new(|_| {}));
    let keys = (0..1000).filter_map(|key| ApiKey::try_from(key).ok());
    let names: HashMap<_, _> = keys.map(|key| (format!("{key:?}"), key)).collect();
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let question: Value = serde_json::from_str(&line.unwrap()).unwrap();
        writeln!(out, "{}", answer(&question, &names)).unwrap();
        out.flush().unwrap();
    }
}
