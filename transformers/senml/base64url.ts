// Decodes base64url without padding, the encoding of bytes in SenML JSON (RFC 8428 §4.3, RFC 4648 §5).

const notBase64url = /[^A-Za-z0-9_-]/

/**
 * The bytes, or undefined if the text is not base64url: `Buffer.from` would silently skip invalid characters.
 * Non-zero trailing bits are accepted.
 */
export function base64urlBytes(text: string): Uint8Array | undefined {
  if (text.length % 4 === 1 || notBase64url.test(text)) return undefined
  return new Uint8Array(Buffer.from(text, 'base64url'))
}
