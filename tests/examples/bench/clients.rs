//! `bench clients`: how many of the 22 TPC-H queries a second one client and several get, each running all of them again
//! and again in an order of its own; and what q6 takes alone and among q21s.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use tokio_postgres::Client;

use crate::Options;
use crate::served::{Served, query};

/// Clients that send q21 while q6 is timed.
const BESIDE: usize = 4;

pub fn run(options: &Options) -> Result<()> {
    let served = Served::new(options, &[])?;
    let texts = options.queries.iter().map(|&number| options.sql(number));
    let texts: Arc<[String]> = texts.collect::<Result<_>>()?;
    let (short, long) = (options.sql(6)?, options.sql(21)?);
    let time = options.time();
    let set = options.set.clone();
    served.run_with_clients(options.clients.max(BESIDE + 1), async |clients| {
        for client in &clients {
            for setting in &set {
                client.batch_execute(&format!("SET {setting}")).await?;
            }
        }
        // Code is compiled, columns are copied.
        for text in texts.iter() {
            for _ in 0..2 {
                query(&clients[0], text).await?;
            }
        }
        let alone = rate(&clients[..1], &texts, time).await?;
        let together = rate(&clients[..options.clients], &texts, time).await?;
        println!("1 client: {alone:.1} queries a second");
        let ratio = together / alone;
        println!(
            "{} clients: {together:.1} queries a second, {ratio:.2} times as many",
            options.clients
        );
        let idle = quartiles(&clients[0], &short).await?;
        let stop = Arc::new(AtomicBool::new(false));
        let beside = clients[1..=BESIDE].iter().map(|client| {
            let (client, stop, long) = (Arc::clone(client), Arc::clone(&stop), long.clone());
            tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    query(&client, &long).await?;
                }
                anyhow::Ok(())
            })
        });
        let beside: Vec<_> = beside.collect();
        tokio::time::sleep(Duration::from_millis(200)).await;
        let busy = quartiles(&clients[0], &short).await?;
        stop.store(true, Ordering::Relaxed);
        for task in beside {
            task.await??;
        }
        println!(
            "q6 alone: median {:.2} ms, 3/4 {:.2} ms; beside {BESIDE} clients with q21: {:.2} ms, {:.2} ms",
            idle[0], idle[1], busy[0], busy[1]
        );
        Ok(())
    })
}

/// Queries a second of all clients together.
async fn rate(clients: &[Arc<Client>], texts: &Arc<[String]>, time: Duration) -> Result<f64> {
    let done = Arc::new(AtomicUsize::new(0));
    let begun = Instant::now();
    let tasks = clients.iter().enumerate().map(|(number, client)| {
        let (client, texts, done) = (Arc::clone(client), Arc::clone(texts), Arc::clone(&done));
        tokio::spawn(async move {
            // Coprime to 22: every client has them all, each in another order.
            let step = [1, 3, 5, 7, 9, 13, 15, 17, 19, 21][number % 10];
            let mut at = number;
            while begun.elapsed() < time {
                query(&client, &texts[at % texts.len()]).await?;
                done.fetch_add(1, Ordering::Relaxed);
                at += step;
            }
            anyhow::Ok(())
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await??;
    }
    Ok(done.load(Ordering::Relaxed) as f64 / begun.elapsed().as_secs_f64())
}

/// The median and the upper quartile of a query's times.
async fn quartiles(client: &Client, sql: &str) -> Result<[f64; 2]> {
    let mut times = vec![];
    for _ in 0..100 {
        let begun = Instant::now();
        query(client, sql).await?;
        times.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    Ok([times[50], times[75]])
}
