//! The session's conventions for dates and times, where functions find them: in the options that plans are made and run
//! with.

use datafusion::common::config::{ConfigEntry, ConfigExtension, ConfigOptions, ExtensionOptions};
use datafusion::common::{Result, config_err};
use std::any::Any;
use std::sync::Arc;
use tenon_storage::datetime::Conventions;

#[derive(Clone, Debug, Default)]
pub(crate) struct SessionConventions(pub Arc<Conventions>);

impl ConfigExtension for SessionConventions {
    const PREFIX: &'static str = "tenon_conventions";
}

impl ExtensionOptions for SessionConventions {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    fn set(&mut self, key: &str, _: &str) -> Result<()> {
        config_err!("{key} is set by the session")
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        Vec::new()
    }
}

/// The conventions of the session whose options these are.
pub(crate) fn of(options: &ConfigOptions) -> Arc<Conventions> {
    match options.extensions.get::<SessionConventions>() {
        Some(own) => own.0.clone(),
        None => Arc::default(),
    }
}
