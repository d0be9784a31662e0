//! Random conversations on the wire: valid frames in an order that makes sense, some of them damaged. Whatever comes, the
//! server answers or closes, and serves others. Prints its seed; `TENON_SEED` repeats one.

use crate::bounds::random_time;
use crate::process::{Server, value};
use crate::raw::RawClient;
use crate::trial;
use anyhow::{Result, ensure};
use libtest_mimic::Trial;
use rand::prelude::*;
use std::time::{Duration, Instant};

pub fn trials() -> Vec<Trial> {
    vec![trial("wire::fuzz", fuzz)]
}

const STATEMENTS: [&str; 14] = [
    "SELECT 1",
    "SELECT $1::int4 + $2::int8",
    "SELECT x, 'text ' || x FROM generate_series(1, 1000) g(x)",
    "SELECT $1::text, $2::numeric, $3::timestamptz",
    "BEGIN",
    "COMMIT",
    "ROLLBACK",
    "INSERT INTO fuzz VALUES (1, 'a'), (2, $1)",
    "SELECT * FROM fuzz WHERE k = $1",
    "COPY fuzz FROM STDIN",
    "COPY fuzz TO STDOUT (FORMAT binary)",
    "DECLARE c CURSOR FOR SELECT * FROM generate_series(1, 100)",
    "FETCH 3 FROM c",
    "SELECT 1; SELECT 2; SELECT 1 / 0; SELECT 3",
];

struct Fuzzer(StdRng);

impl Fuzzer {
    fn name(&mut self) -> &'static str {
        ["", "", "a", "b", "c"].choose(&mut self.0).copied().unwrap_or_default()
    }

    fn statement(&mut self) -> &'static str {
        STATEMENTS.choose(&mut self.0).copied().unwrap_or_default()
    }

    fn text(body: &mut Vec<u8>, text: &str) {
        body.extend_from_slice(text.as_bytes());
        body.push(0);
    }

    /// One well-formed frame.
    fn frame(&mut self) -> Vec<u8> {
        let mut body = Vec::new();
        let kind = *b"QPPBBBDEEECSSSHdcfp".choose(&mut self.0).unwrap_or(&b'S');
        match kind {
            b'Q' => Self::text(&mut body, self.statement()),
            b'P' => {
                Self::text(&mut body, self.name());
                Self::text(&mut body, self.statement());
                let types = self.0.random_range(0..3u16);
                body.extend_from_slice(&types.to_be_bytes());
                for _ in 0..types {
                    let oid = [0u32, 20, 23, 25, 1700, 1184, 17, 2950, 99999].choose(&mut self.0);
                    body.extend_from_slice(&oid.unwrap_or(&0).to_be_bytes());
                }
            }
            b'B' => self.bind(&mut body),
            b'D' | b'C' => {
                body.push(*b"SP".choose(&mut self.0).unwrap_or(&b'S'));
                Self::text(&mut body, self.name());
            }
            b'E' => {
                Self::text(&mut body, self.name());
                body.extend_from_slice(&self.0.random_range(0..5i32).to_be_bytes());
            }
            b'd' => body.extend_from_slice(b"1\tone\n2\t\\N\n"),
            b'f' | b'p' => Self::text(&mut body, "no"),
            _ => {}
        }
        let length = (body.len() as i32 + 4).to_be_bytes();
        [&[kind][..], &length, &body].concat()
    }

    fn bind(&mut self, body: &mut Vec<u8>) {
        Self::text(body, self.name());
        Self::text(body, self.name());
        let format = self.0.random_range(0..2u16);
        body.extend_from_slice(&1u16.to_be_bytes());
        body.extend_from_slice(&format.to_be_bytes());
        let values = self.0.random_range(0..4u16);
        body.extend_from_slice(&values.to_be_bytes());
        for _ in 0..values {
            let value: &[u8] = match (format, self.0.random_range(0..4)) {
                (_, 0) => {
                    body.extend_from_slice(&(-1i32).to_be_bytes());
                    continue;
                }
                (0, 1) => b"17",
                (0, _) => b"2024-01-01 10:00",
                (_, 1) => &[0, 0, 0, 17],
                (_, 2) => &[0, 2, 0, 0, 0, 0, 0, 1, 0, 7, 0x27, 0x0f],
                _ => &[0, 0, 0, 0, 0, 0, 0, 5],
            };
            body.extend_from_slice(&(value.len() as i32).to_be_bytes());
            body.extend_from_slice(value);
        }
        body.extend_from_slice(&1u16.to_be_bytes());
        body.extend_from_slice(&self.0.random_range(0..2u16).to_be_bytes());
    }

    /// Harms a frame: a bit, a byte, a number, its length, its end.
    fn damage(&mut self, frame: &mut Vec<u8>) {
        let at = self.0.random_range(0..frame.len());
        match self.0.random_range(0..7) {
            0 => frame[at] ^= 1 << self.0.random_range(0..8),
            1 => frame[at] = self.0.random(),
            2 => frame.truncate(at.max(1)),
            3 => {
                let length = self.0.random_range(0..64i32) - 8;
                frame.resize(frame.len().max(5), 0);
                frame[1..5].copy_from_slice(&length.to_be_bytes());
            }
            4 => {
                let number = *[-1i32, i32::MAX, i32::MIN, 0, 0x7fff].choose(&mut self.0).unwrap_or(&0);
                let bytes = number.to_be_bytes();
                let end = (at + 4).min(frame.len());
                frame[at..end].copy_from_slice(&bytes[..end - at]);
            }
            5 => frame.insert(at, self.0.random()),
            _ => {
                let copy = frame[at..].to_vec();
                frame.extend(copy);
            }
        }
    }

    fn conversation(&mut self) -> Vec<u8> {
        let damaged = self.0.random_bool(0.7);
        let mut bytes = Vec::new();
        for _ in 0..self.0.random_range(1..20) {
            let mut frame = self.frame();
            if damaged && self.0.random_bool(0.2) {
                self.damage(&mut frame);
            }
            bytes.extend(frame);
        }
        // Ends whatever is open, if it is still understood.
        for (kind, body) in [(b'f', &b"end\0"[..]), (b'S', b""), (b'X', b"")] {
            bytes.push(kind);
            bytes.extend_from_slice(&(body.len() as i32 + 4).to_be_bytes());
            bytes.extend_from_slice(body);
        }
        bytes
    }
}

async fn fuzz() -> Result<()> {
    let mut server = Server::start(&["--statement-timeout", "5s", "--log-level", "info,tenon::wire=debug"])?;
    let seed = std::env::var("TENON_SEED").ok().and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or_else(|| rand::rng().random());
    println!("wire::fuzz: seed {seed}");
    let mut fuzzer = Fuzzer(StdRng::seed_from_u64(seed));
    let client = server.connect().await?;
    client.batch_execute("CREATE TABLE fuzz (k int4, t text)").await?;
    let (begun, mut conversations) = (Instant::now(), 0);
    while begun.elapsed() < random_time() {
        let mut client = RawClient::connect(&server)?;
        let bytes = fuzzer.conversation();
        // The server may close before it has read all.
        let _ = client.send_bytes(&bytes);
        client.finish();
        let sent = Instant::now();
        while let Ok(Some(_)) = client.next() {}
        ensure!(
            sent.elapsed() < Duration::from_secs(20),
            "no end: seed {seed}, {bytes:?}"
        );
        conversations += 1;
        if conversations % 50 == 0 {
            ensure!(server.is_alive()?, "seed {seed}: {}", server.log());
            ensure!(value(&server.connect().await?, "SELECT 42").await? == "42");
        }
    }
    println!("wire::fuzz: {conversations} conversations");
    let log = server.log();
    let bad: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("panicked") || line.contains("XX000"))
        .collect();
    ensure!(bad.is_empty(), "seed {seed}: {}", bad.join("\n"));
    Ok(())
}
