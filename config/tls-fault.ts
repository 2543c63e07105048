// Which failures of TLS no retry mends, by the codes of Node.js and OpenSSL.

/** A certificate that is not trusted, or a peer that speaks no TLS that this process does. */
const fault = /^ERR_(SSL|TLS)_|CERT|UNABLE_TO_/
/** What a server or a proxy says while it restarts or has no backend, and what a damaged connection ends with: the next handshake may succeed. */
const passing = /ALERT_(INTERNAL_ERROR|USER_CANCELLED)|BAD_RECORD|UNEXPECTED_EOF|DECRYPTION_FAILED|HANDSHAKE_TIMEOUT/

/** @param code of an error; undefined where it has none */
export function isTlsFault(code: unknown): code is string {
  return typeof code === 'string' && fault.test(code) && !passing.test(code)
}
