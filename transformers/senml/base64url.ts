// Base64url without padding, as SenML JSON carries bytes (RFC 8428 §4.3, RFC 4648 §5).

const notBase64url = /[^A-Za-z0-9_-]/

/**
 * The bytes, or undefined where the text is not base64url: `Buffer.from` would drop what is not of the alphabet in silence.
 * Trailing bits that are not zero are accepted, as most encoders' output is.
 */
export function base64urlBytes(text: string): Uint8Array | undefined {
  if (text.length % 4 === 1 || notBase64url.test(text)) return undefined
  return new Uint8Array(Buffer.from(text, 'base64url'))
}
