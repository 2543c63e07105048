// For nginx: the certificate that the client showed, as the header Client-Cert (RFC 9440 §2.1). Empty without one; nginx then sends no header.

function header(request) {
  const pem = request.variables.ssl_client_raw_cert
  return pem ? `:${pem.replace(/-----[A-Z ]+-----|\s/g, '')}:` : ''
}

export default { header }
