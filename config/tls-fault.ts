// Tells which TLS failures a retry cannot fix, by the error codes of Node.js and OpenSSL.

/** An untrusted certificate, or a peer with which no common TLS version or cipher exists. */
const fault = /^ERR_(SSL|TLS)_|CERT|UNABLE_TO_/
/** Sent by a server or proxy that restarts or has no backend, or caused by a broken connection: the next handshake may succeed. */
const passing = /ALERT_(INTERNAL_ERROR|USER_CANCELLED)|BAD_RECORD|UNEXPECTED_EOF|DECRYPTION_FAILED|HANDSHAKE_TIMEOUT/

/** @param code of an error; undefined if it has none */
export function isTlsFault(code: unknown): code is string {
  return typeof code === 'string' && fault.test(code) && !passing.test(code)
}
