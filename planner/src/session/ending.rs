//! What goes with a session.

use super::Session;

impl Drop for Session {
    fn drop(&mut self) {
        self.cancel.cancel();
        self.engine.activity.leave(self.number);
        self.stop_listening();
        self.advisory.close();
        if self.has_temporary {
            let mut transaction = self.engine.database().begin();
            let schema = self.temporary_schema();
            if transaction.state().schema(&schema).is_some() {
                let dropped = transaction
                    .drop_schema(&schema, true)
                    .and_then(|()| transaction.commit());
                if let Err(error) = dropped {
                    tracing::warn!("cannot drop temporary tables of a closed session: {error}");
                }
            }
        }
    }
}
