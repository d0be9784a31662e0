//! How a fragment keeps within the device memory that there is.

use std::sync::Arc;

use super::compiled::Compiled;
use super::kept::FormOf;
use super::streamed::Streamed;
use crate::codegen::Translated;

/// Device memory that there is for a query: what it may touch, and what is free of others' arrays.
#[derive(Clone, Copy)]
pub struct Room {
    pub limit: u64,
    pub free: u64,
}

/// A fragment with how it keeps within the room that there is.
pub type Fitted = (Arc<Compiled>, Streamed);

impl Room {
    pub fn fitted(self, compiled: Arc<Compiled>) -> Translated<Fitted> {
        let arrays = compiled.fragment.array_bytes();
        if arrays > self.free {
            let mb = |bytes: u64| bytes >> 20;
            return Err(format!(
                "{} MiB of device memory, {} are free",
                mb(arrays),
                mb(self.free)
            ));
        }
        let streamed = compiled.streamed(self.limit)?;
        Ok((compiled, streamed))
    }

    /// The form that fits without chunks, or else with the fewest bytes in such: with room for all rows if that does as well,
    /// and in passes if no other does.
    pub fn form(self, form: impl Fn(FormOf<'_>) -> Translated<Arc<Compiled>>) -> Translated<Fitted> {
        let fitted = |of: FormOf<'_>| form(of).and_then(|own| self.fitted(own));
        let whole = fitted(FormOf::Whole);
        match &whole {
            Ok((_, streamed)) if streamed.is_empty() => return whole,
            // Nothing else would do for it.
            Err(why) if form(FormOf::Whole).is_err() => return Err(why.clone()),
            _ => {}
        }
        match (fitted(FormOf::Sparing), whole) {
            (Ok(sparing), Ok(whole)) if whole.1.bytes <= sparing.1.bytes => Ok(whole),
            (Ok(sparing), _) => Ok(sparing),
            (Err(_), Ok(whole)) => Ok(whole),
            (Err(why), Err(_)) => {
                let fits = |compiled: &Arc<Compiled>| self.fitted(Arc::clone(compiled)).is_ok();
                fitted(FormOf::Passes(&fits)).map_err(|passes| format!("{why}; {passes}"))
            }
        }
    }
}
