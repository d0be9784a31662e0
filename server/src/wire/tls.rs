//! TLS by rustls, set up before the server starts to listen: a bad certificate stops the start. Clients' certificates are
//! verified in the handshake, where there is an authority for them; a client may come without one.

use super::hba::ClientCertificate;
use anyhow::Context;
use pgwire::tokio::TlsAcceptor;
use pgwire::tokio::tokio_rustls::rustls::crypto::ring;
use pgwire::tokio::tokio_rustls::rustls::pki_types::pem::PemObject;
use pgwire::tokio::tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use pgwire::tokio::tokio_rustls::rustls::server::WebPkiClientVerifier;
use pgwire::tokio::tokio_rustls::rustls::{RootCertStore, ServerConfig};
use std::path::Path;
use std::sync::Arc;
use x509_certificate::X509Certificate;

/// Reads a PEM certificate chain and its key, and the certificates of who signs those of clients.
pub fn acceptor(certificate: &Path, key: &Path, client_authority: Option<&Path>) -> anyhow::Result<TlsAcceptor> {
    let chain = certificates(certificate)?;
    let private =
        PrivateKeyDer::from_pem_file(key).map_err(|e| anyhow::anyhow!("cannot read the key {}: {e}", key.display()))?;
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .context("TLS protocol versions")?;
    let builder = match client_authority {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let of_authority = || format!("the certificates in {}", path.display());
            let mut roots = RootCertStore::empty();
            for certificate in certificates(path)? {
                roots.add(certificate).with_context(of_authority)?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            let verifier = verifier.allow_unauthenticated().build().with_context(of_authority)?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder
        .with_single_cert(chain, private)
        .with_context(|| format!("{} and {} do not go together", certificate.display(), key.display()))?;
    config.alpn_protocols = vec![b"postgresql".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn certificates(path: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let chain = CertificateDer::pem_file_iter(path)
        .and_then(|certificates| certificates.collect::<Result<Vec<_>, _>>())
        .map_err(|e| anyhow::anyhow!("cannot read the certificate {}: {e}", path.display()))?;
    if chain.is_empty() {
        anyhow::bail!("{} holds no certificate", path.display());
    }
    Ok(chain)
}

/// What a verified certificate says of its owner.
pub fn owner(certificate: &CertificateDer<'_>) -> ClientCertificate {
    let parsed = X509Certificate::from_der(certificate);
    ClientCertificate {
        common_name: parsed.ok().and_then(|parsed| parsed.subject_common_name()),
    }
}
