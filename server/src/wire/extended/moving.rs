//! MOVE in a portal of the protocol.

use super::PortalState;
use crate::encode::row::RowEncoder;
use crate::wire::connection::Connection;
use crate::wire::failure::Step;
use crate::wire::results::{ResultStream, run};
use tenon_planner::error::{SqlError, state};
use tenon_planner::outcome::Outcome;
use tenon_planner::session::TransactionStatus;

impl Connection {
    pub(in crate::wire) fn is_portal(&self, name: &str) -> bool {
        !name.is_empty() && self.portals.contains_key(name)
    }

    /// MOVE over rows of a portal, up to so many: what DECLARE made is no portal of the protocol.
    pub(in crate::wire) async fn move_over(&mut self, name: &str, limit: usize) -> Step<()> {
        let (running, _entered) = self.begin_statement();
        if self.session.transaction_status() == TransactionStatus::Failed {
            let message = "current transaction is aborted, commands ignored until end of transaction block";
            return Err(SqlError::new(state::IN_FAILED_SQL_TRANSACTION, message).into());
        }
        let style = self.style();
        let portal = Self::portal(&mut self.portals, name)?;
        let cannot = || {
            let message = format!("portal \"{name}\" cannot be run");
            SqlError::new(state::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
        };
        let (mut rows, mut execution) = match std::mem::replace(&mut portal.state, PortalState::Done) {
            PortalState::Running(rows, mut execution) => {
                execution.resume();
                (*rows, execution)
            }
            PortalState::New(values) => {
                let (statement, results) = (portal.statement.clone(), portal.results.clone());
                if !statement.returns_rows() {
                    return Err(cannot().into());
                }
                let execution = self.session.opened(&statement, None, &values);
                let Self { session, input, .. } = self;
                match run(&running, input, session.execute(&statement, values)).await? {
                    Outcome::Rows { columns, stream, tag } => {
                        let encoder = RowEncoder::new(&columns, &results.expand(columns.len())?, style);
                        let account = self.session.account().clone();
                        let pending = None;
                        let rows = ResultStream {
                            stream,
                            account,
                            encoder,
                            tag,
                            pending,
                        };
                        (rows, execution)
                    }
                    _ => return Err(cannot().into()),
                }
            }
            PortalState::Ended(tag) => {
                portal.state = PortalState::Ended(tag);
                self.output.command_complete("MOVE 0");
                return Ok(());
            }
            PortalState::Done => return Err(cannot().into()),
        };
        let (skipped, end) = rows.skip(limit, &running, &mut self.input).await?;
        self.tell();
        self.output.command_complete(&format!("MOVE {skipped}"));
        let after = match end {
            true => {
                self.close(Some(execution), name, 0);
                PortalState::Ended(rows.tag)
            }
            false => {
                execution.pause(0);
                PortalState::Running(Box::new(rows), execution)
            }
        };
        if let Some(portal) = self.portals.get_mut(name) {
            portal.state = after;
        }
        Ok(())
    }
}
