//! TLS by rustls, set up before the server starts to listen: a bad certificate stops the start.

use anyhow::Context;
use pgwire::tokio::TlsAcceptor;
use pgwire::tokio::tokio_rustls::rustls::ServerConfig;
use pgwire::tokio::tokio_rustls::rustls::crypto::ring;
use pgwire::tokio::tokio_rustls::rustls::pki_types::pem::PemObject;
use pgwire::tokio::tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::path::Path;
use std::sync::Arc;

/// Reads a PEM certificate chain and its key.
pub fn acceptor(certificate: &Path, key: &Path) -> anyhow::Result<TlsAcceptor> {
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(|certificates| certificates.collect::<Result<Vec<_>, _>>())
        .map_err(|e| anyhow::anyhow!("cannot read the certificate {}: {e}", certificate.display()))?;
    if chain.is_empty() {
        anyhow::bail!("{} holds no certificate", certificate.display());
    }
    let private =
        PrivateKeyDer::from_pem_file(key).map_err(|e| anyhow::anyhow!("cannot read the key {}: {e}", key.display()))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .context("TLS protocol versions")?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .with_context(|| format!("{} and {} do not go together", certificate.display(), key.display()))?;
    config.alpn_protocols = vec![b"postgresql".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
