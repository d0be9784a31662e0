//! Frames over a pipe that cuts them anywhere.

use super::cancel::{Reason, Running};
use super::input::{CopyInput, Input, InputError};
use super::message::Message;
use super::output::{FLUSH_BYTES, Output};
use std::time::Duration;
use tenon_storage::heap::Account;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

fn frame(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind], (body.len() as u32 + 4).to_be_bytes().as_slice(), body].concat()
}

/// An input whose client sends `bytes` in pieces of `piece` and then closes.
fn client(bytes: Vec<u8>, piece: usize) -> Input<DuplexStream> {
    let (mut ours, theirs) = duplex(64);
    tokio::spawn(async move {
        for part in bytes.chunks(piece) {
            if ours.write_all(part).await.is_err() {
                return;
            }
        }
    });
    let mut input = Input::new(theirs);
    input.trust();
    input
}

#[tokio::test]
async fn messages_cut_anywhere() {
    let bytes = [
        frame(b'Q', b"select 1\0"),
        frame(b'd', b"stray"),
        frame(b'S', b""),
        frame(b'Q', b"x\0"),
    ]
    .concat();
    for piece in [1, 3, 7, 1000] {
        let mut input = client(bytes.clone(), piece);
        assert!(matches!(input.next().await, Ok(Message::Query(sql)) if sql == "select 1"));
        assert!(
            matches!(input.next().await, Ok(Message::Sync)),
            "stray COPY data is passed over"
        );
        assert!(matches!(input.next().await, Ok(Message::Query(_))));
        assert!(matches!(input.next().await, Err(InputError::Gone(None))));
    }
}

#[tokio::test]
async fn frames_that_are_none() {
    for (bytes, part) in [
        (vec![1, 0, 0, 0, 8, 0, 0, 0, 0], "invalid frontend message type 1"),
        (vec![b'Q', 0, 0, 0, 3], "invalid message length 3"),
        (vec![b'Q', 0x7f, 0xff, 0xff, 0xff], "invalid message length"),
        (vec![b'S', 0, 0, 0x40, 0], "invalid message length"),
        (vec![b'Q', 0xff, 0xff, 0xff, 0xff], "invalid message length"),
    ] {
        match client(bytes, 100).next().await {
            Err(InputError::Fatal(error)) => {
                assert_eq!(error.state.0, "08P01");
                assert!(error.message.contains(part), "{error}");
            }
            other => panic!("{other:?}"),
        }
    }
    let (_ours, theirs) = duplex(64);
    let mut stranger = Input::new(theirs);
    assert!(
        stranger.startup_packet_within().await.is_none(),
        "an idle stranger is waited for"
    );
    let (mut ours, theirs) = duplex(64);
    ours.write_all(&[b'Q', 0, 1, 0, 0]).await.unwrap();
    let long = Input::new(theirs).next().await;
    assert!(
        matches!(long, Err(InputError::Fatal(_))),
        "a stranger may send short messages only"
    );
    let mut known = client([b'Q', 0, 1, 0, 0].into(), 10);
    assert!(
        matches!(known.next().await, Err(InputError::Gone(None))),
        "64 KiB are fine of a known client"
    );
}

impl Input<DuplexStream> {
    /// The startup packet, or `None` after a moment.
    async fn startup_packet_within(&mut self) -> Option<Result<bytes::Bytes, InputError>> {
        tokio::time::timeout(Duration::from_millis(20), self.startup_packet())
            .await
            .ok()
    }
}

#[tokio::test]
async fn startup_packets() {
    let packet = [&12u32.to_be_bytes()[..], b"\0\x03\0\0user"].concat();
    assert_eq!(
        client(packet, 1).startup_packet().await.unwrap().as_ref(),
        b"\0\x03\0\0user"
    );
    for bytes in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        &7u32.to_be_bytes(),
        &10_001u32.to_be_bytes(),
    ] {
        let error = client(bytes.to_vec(), 100).startup_packet().await;
        assert!(matches!(error, Err(InputError::Fatal(e)) if e.state.0 == "08P01"));
    }
}

#[tokio::test]
async fn copy_data_in_pieces() {
    let data: Vec<u8> = (0..200_000u32).map(|i| i as u8).collect();
    let mut bytes = Vec::new();
    for (i, part) in data.chunks(7001).enumerate() {
        bytes.extend(frame(b'd', part));
        if i % 5 == 0 {
            bytes.extend(frame(b'H', b""));
            bytes.extend(frame(b'd', b""));
        }
    }
    let whole = [bytes.clone(), frame(b'c', b""), frame(b'S', b"")].concat();
    for piece in [13, 1009, 1 << 20] {
        let mut input = client(whole.clone(), piece);
        let mut got = Vec::new();
        while let CopyInput::Data(data) = input.next_copy().await.unwrap() {
            assert!(!data.is_empty());
            got.extend_from_slice(&data);
        }
        assert_eq!(got, data);
        assert!(matches!(input.next().await, Ok(Message::Sync)));
    }
    // What ends a COPY otherwise.
    let mut input = client([frame(b'd', b"x"), frame(b'f', b"why\0")].concat(), 100);
    assert!(matches!(input.next_copy().await, Ok(CopyInput::Data(_))));
    assert!(matches!(input.next_copy().await, Ok(CopyInput::Fail(why)) if why == "why"));
    let mut input = client(frame(b'Q', b"select 1\0"), 100);
    assert!(matches!(input.next_copy().await, Err(InputError::Bad(b'Q', e)) if e.state.0 == "08P01"));
    let mut input = client(frame(b'd', b"half")[..7].to_vec(), 100);
    assert!(matches!(input.next_copy().await, Ok(CopyInput::Data(data)) if data.as_ref() == b"ha"));
    assert!(matches!(input.next_copy().await, Err(InputError::Gone(None))));
}

fn running(deadline: Option<Duration>) -> std::sync::Arc<Running> {
    let token = CancellationToken::new();
    Running::new(
        token.clone(),
        Account::new(token),
        deadline.map(|after| Instant::now() + after),
        CancellationToken::new(),
    )
}

#[tokio::test]
async fn a_statement_ends_with_its_client() {
    let mut input = client(Vec::new(), 1);
    let running = running(None);
    let result = running
        .drive_until_stopped(&mut input, std::future::pending::<()>())
        .await;
    assert_eq!(result.unwrap_err().state.0, "08006");
    assert_eq!(running.reason(), Some(Reason::Gone));
}

#[tokio::test]
async fn a_statement_ends_with_its_time() {
    let (_ours, theirs) = duplex(64);
    let mut input = Input::new(theirs);
    let running = running(Some(Duration::from_millis(10)));
    let error = running
        .drive_until_stopped(&mut input, std::future::pending::<()>())
        .await
        .unwrap_err();
    assert_eq!(
        (error.state.0, error.message.contains("statement timeout")),
        ("57014", true)
    );
}

#[tokio::test]
async fn messages_sent_while_a_statement_runs_are_kept() {
    let (mut ours, theirs) = duplex(64);
    ours.write_all(&frame(b'Q', b"next\0")).await.unwrap();
    let mut input = Input::new(theirs);
    let work = tokio::time::sleep(Duration::from_millis(20));
    running(None).drive_until_stopped(&mut input, work).await.unwrap();
    assert!(matches!(input.next().await, Ok(Message::Query(sql)) if sql == "next"));
}

#[tokio::test]
async fn a_flush_that_is_interrupted_goes_on_where_it_was() {
    let (ours, mut theirs) = duplex(1000);
    let mut output = Output::new(ours);
    let sent: Vec<u8> = (0..FLUSH_BYTES as u32 + 5).map(|i| i as u8).collect();
    output.buffer.extend_from_slice(&sent);
    assert!(output.is_full());
    let mut got = Vec::new();
    let mut piece = [0; 777];
    loop {
        // The reader is slow: every flush is cut short.
        if tokio::time::timeout(Duration::from_millis(1), output.flush())
            .await
            .is_ok()
        {
            break;
        }
        let bytes = theirs.read(&mut piece).await.unwrap();
        got.extend_from_slice(&piece[..bytes]);
    }
    drop(output);
    theirs.read_to_end(&mut got).await.unwrap();
    assert_eq!(got, sent);
}
