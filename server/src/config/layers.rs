//! The sources of settings, one over the other, and values out of them.

use anyhow::{Context, bail};
use figment::value::{Dict, Map, Value};
use figment::{Figment, Metadata, Profile, Provider};
use std::path::PathBuf;

/// One source of settings, by the name that messages give it.
pub(super) struct Layer(pub &'static str, pub Dict);

impl Provider for Layer {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.0)
    }

    fn data(&self) -> figment::Result<Map<Profile, Dict>> {
        Ok(Profile::Default.collect(self.1.clone()))
    }
}

/// The merged settings, all of them still text.
pub(super) struct Layers(pub Figment);

impl Layers {
    /// A setting's text and where it comes from.
    fn text(&self, name: &str) -> anyhow::Result<Option<(String, String)>> {
        let Ok(value) = self.0.find_value(name) else {
            return Ok(None);
        };
        let source = self
            .0
            .get_metadata(value.tag())
            .map(|metadata| metadata.name.to_string())
            .unwrap_or_default();
        let text = scalar(&value).with_context(|| format!("the value of {name} ({source}) must be one value"))?;
        Ok(Some((text, source)))
    }

    pub fn get<T>(
        &self,
        name: &str,
        allowed: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> anyhow::Result<Option<T>> {
        let Some((text, source)) = self.text(name)? else {
            return Ok(None);
        };
        match parse(text.trim()) {
            Some(value) => Ok(Some(value)),
            None => bail!("invalid value \"{text}\" for {name} (from: {source}): allowed is {allowed}"),
        }
    }

    pub fn path(&self, name: &str) -> anyhow::Result<Option<PathBuf>> {
        self.get(name, "a path", |text| Some(PathBuf::from(text)))
    }

    /// A list of directories: an array, or text with colons between them.
    pub fn directories(&self) -> anyhow::Result<Vec<PathBuf>> {
        let list: Vec<String> = match self.0.find_value("data_dir") {
            Err(_) => return Ok(Vec::new()),
            Ok(Value::Array(_, items)) => items.iter().filter_map(scalar).collect(),
            Ok(one) => scalar(&one)
                .map(|text| text.split(':').map(str::to_owned).collect())
                .unwrap_or_default(),
        };
        let mut found = Vec::new();
        for text in list.into_iter().filter(|text| !text.is_empty()) {
            let path = PathBuf::from(&text);
            if !path.is_dir() {
                bail!("invalid value \"{text}\" for data_dir: allowed is an existing directory");
            }
            found.push(path);
        }
        Ok(found)
    }
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(_, text) => Some(text.clone()),
        Value::Char(_, c) => Some(c.to_string()),
        Value::Bool(_, flag) => Some(flag.to_string()),
        Value::Num(_, number) => match (number.to_i128(), number.to_u128(), number.to_f64()) {
            (Some(n), ..) => Some(n.to_string()),
            (_, Some(n), _) => Some(n.to_string()),
            (.., Some(n)) => Some(n.to_string()),
            _ => None,
        },
        _ => None,
    }
}
