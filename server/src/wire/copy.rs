//! Both directions of COPY between the client and the engine.

use super::cancel::Running;
use super::connection::Connection;
use super::failure::{Failure, Step};
use super::input::CopyInput;
use super::output::FLUSH_BYTES;
use super::results::{next_batch, run};
use crate::encode::copy::CopyEncoder;
use tenon_planner::error::{SqlError, state};
use tenon_planner::outcome::{CopyIn, CopyOut, CopyOutFormat, CopySink};
use tenon_storage::heap;

impl Connection {
    /// `COPY FROM STDIN`: data to the sink as it comes, waiting where the sink is slower. Whatever ends it early drops
    /// the sink, which leaves the table as it was.
    pub(super) async fn copy_in(&mut self, copy: CopyIn, running: &Running) -> Step<String> {
        let CopyIn {
            binary,
            columns,
            sink,
            place,
        } = copy;
        let done = self.receive_copy(binary, columns, sink, running).await;
        done.map_err(|failure| match failure {
            Failure::Sql(mut error) if error.state == state::QUERY_CANCELED => {
                error.context.get_or_insert_with(|| place.context().into());
                Failure::Sql(error)
            }
            other => other,
        })
    }

    async fn receive_copy(
        &mut self,
        binary: bool,
        columns: usize,
        mut sink: Box<dyn CopySink>,
        running: &Running,
    ) -> Step<String> {
        let charset = self.input.charset;
        if binary && !charset.is_utf8() {
            let what = format!("COPY FROM in binary format in client encoding \"{}\"", charset.name());
            return Err(SqlError::unsupported(what).into());
        }
        self.output.copy_response(b'G', binary, columns);
        self.output.flush().await?;
        loop {
            let piece = tokio::select! {
                piece = self.input.next_copy() => piece,
                () = running.stopped() => return Err(running.stop_error().into()),
            };
            match piece {
                Ok(CopyInput::Data(data)) => {
                    // A character is one byte in all encodings but UTF-8.
                    let data = match charset.is_utf8() {
                        true => data,
                        false => charset.decode(&data)?.into_owned().into(),
                    };
                    run(running, &mut self.input, sink.write(data)).await?;
                }
                Ok(CopyInput::Done) => {
                    let rows = run(running, &mut self.input, sink.finish()).await?;
                    return Ok(format!("COPY {rows}"));
                }
                Ok(CopyInput::Fail(why)) => {
                    let message = format!("COPY from stdin failed: {why}");
                    return Err(SqlError::new(state::QUERY_CANCELED, message).into());
                }
                Err(error) => return Err(Failure::from(error)),
            }
        }
    }

    /// `COPY TO STDOUT`.
    pub(super) async fn copy_out(&mut self, copy: CopyOut, running: &Running) -> Step<String> {
        let account = Some(self.session.account().clone());
        heap::within(account, false, self.send_copy(copy, running)).await
    }

    async fn send_copy(&mut self, copy: CopyOut, running: &Running) -> Step<String> {
        let CopyOut {
            columns,
            mut stream,
            format,
            progress,
        } = copy;
        let binary = matches!(format, CopyOutFormat::Binary | CopyOutFormat::Bytes);
        self.output.copy_response(b'H', binary, columns.len());
        let encoder = CopyEncoder::new(&columns, format, self.style());
        encoder.write_start(&mut self.output.buffer);
        let mut sent = 0;
        while let Some(batch) = next_batch(&mut stream, running, &mut self.input).await? {
            let rows = encoder.bind(&batch)?;
            let mut row = 0;
            while row < batch.num_rows() {
                let (from, before) = (row, self.output.buffer.len());
                row = rows.write(sent, row, FLUSH_BYTES, &mut self.output.buffer)?;
                progress.add(self.output.buffer.len() - before, row - from);
                if self.output.is_full() {
                    running.check()?;
                    running
                        .drive_until_stopped(&mut self.input, self.output.flush())
                        .await??;
                }
            }
            sent += batch.num_rows();
        }
        encoder.write_end(sent == 0, &mut self.output.buffer);
        self.output.copy_done();
        Ok(format!("COPY {sent}"))
    }
}
