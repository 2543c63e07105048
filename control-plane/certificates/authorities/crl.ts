// A certificate revocation list in DER (RFC 5280 §5), signed with ECDSA and SHA-256; and until when one of another server is valid.
//
// Not by the library that makes certificates: that one compares each entry with all before it, and blocks the process for 6 s with 10,000 entries, and
// for nine minutes with 50,000. These take 0.1 s here.
//
//   CertificateList ::= SEQUENCE { tbsCertList, signatureAlgorithm, signatureValue BIT STRING }
//   TBSCertList     ::= SEQUENCE { version INTEGER (1), signature AlgorithmIdentifier, issuer Name, thisUpdate Time, nextUpdate Time,
//                                  revokedCertificates SEQUENCE OF SEQUENCE { userCertificate INTEGER, revocationDate Time } OPTIONAL,
//                                  crlExtensions [0] EXPLICIT SEQUENCE OF Extension }

import { type KeyObject, sign } from 'node:crypto'
import { promisify } from 'node:util'

export interface CrlContent {
  /** The issuer's name, as DER. */
  readonly issuer: Uint8Array
  /** Serials in hex: of even length, without a leading zero byte, the first bit clear; none twice. */
  readonly revoked: readonly { readonly serial: string; readonly at: Date }[]
  readonly thisUpdate: Date
  readonly nextUpdate: Date
  /** Greater than that of every earlier CRL (§5.2.3). */
  readonly number: bigint
  /** The extension that names the issuer's key (§5.2.1), as DER. */
  readonly authorityKeyIdentifier: Uint8Array
}

const tags = { integer: 0x02, bitString: 0x03, octetString: 0x04, utcTime: 0x17, generalizedTime: 0x18, sequence: 0x30, explicit0: 0xa0 }
/** AlgorithmIdentifier of ecdsa-with-SHA256 (RFC 5758 §3.2). */
const algorithm = '300a06082a8648ce3d040302'
const version2 = '020101'
/** The object identifier id-ce-cRLNumber, 2.5.29.20. */
const crlNumberId = '0603551d14'

const signBytes = promisify(sign)

/** @param key a private key of P-256 @returns DER */
export async function encodeCrl(content: CrlContent, key: KeyObject): Promise<Buffer> {
  const { issuer, revoked, thisUpdate, nextUpdate, number, authorityKeyIdentifier } = content
  const entries = revoked.map(({ serial, at }) => element(tags.sequence, element(tags.integer, serial) + time(at))).join('')
  const crlNumber = element(tags.sequence, crlNumberId + element(tags.octetString, element(tags.integer, positive(number))))
  const tbs = element(
    tags.sequence,
    [
      version2 + algorithm + hexOf(issuer) + time(thisUpdate) + time(nextUpdate),
      entries === '' ? '' : element(tags.sequence, entries),
      element(tags.explicit0, element(tags.sequence, hexOf(authorityKeyIdentifier) + crlNumber)),
    ].join(''),
  )
  const signature = await signBytes('sha256', Buffer.from(tbs, 'hex'), key)
  return Buffer.from(element(tags.sequence, `${tbs}${algorithm}${element(tags.bitString, `00${hexOf(signature)}`)}`), 'hex')
}

/** @returns milliseconds since 1970; 0 for bytes that are no CRL with a time of its next update, which RFC 5280 §5.1.2.5 demands */
export function nextUpdateOf(crl: Buffer): number {
  try {
    let next = elementAt(crl, elementAt(crl, 0).start)
    next = elementAt(crl, next.start)
    // The version is optional; then follow the algorithm, the issuer, and both times.
    for (let count = next.tag === tags.integer ? 4 : 3; count > 0; count--) next = elementAt(crl, next.end)
    const text = crl.toString('latin1', next.start, next.end)
    // §5.1.2.6: years with two digits are before 2050, and every CRL is younger than 2000.
    const [, year, ...rest] = (next.tag === tags.utcTime ? `20${text}` : text).match(/^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)Z$/) ?? []
    const [month, day, hour, minute, second] = rest
    return Date.parse(`${year}-${month}-${day}T${hour}:${minute}:${second}Z`) || 0
  } catch {
    return 0
  }
}

/** Where the content of an element starts and ends. @throws RangeError beyond the bytes */
function elementAt(bytes: Buffer, at: number): { readonly tag: number; readonly start: number; readonly end: number } {
  const [tag, first] = [bytes.readUInt8(at), bytes.readUInt8(at + 1)]
  if (first < 0x80) return { tag, start: at + 2, end: at + 2 + first }
  const start = at + 2 + (first & 0x7f)
  return { tag, start, end: start + bytes.readUIntBE(at + 2, first & 0x7f) }
}

const hexOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex')
const byte = (value: number): string => value.toString(16).padStart(2, '0')

/** Tag, length and value (X.690 §8.1), all in hex. */
function element(tag: number, value: string): string {
  const length = value.length / 2
  if (length < 0x80) return byte(tag) + byte(length) + value
  const digits = length.toString(16)
  const octets = digits.length % 2 === 0 ? digits : `0${digits}`
  return byte(tag) + byte(0x80 | (octets.length / 2)) + octets + value
}

function positive(number: bigint): string {
  const digits = number.toString(16)
  const octets = digits.length % 2 === 0 ? digits : `0${digits}`
  return octets >= '8' ? `00${octets}` : octets
}

/** UTCTime up to 2049, and GeneralizedTime from then on (§5.1.2.4), in seconds. */
function time(at: Date): string {
  const digits = `${at.toISOString().replace(/\.\d+|\D/g, '')}Z`
  return at.getUTCFullYear() < 2050 ? text(tags.utcTime, digits.slice(2)) : text(tags.generalizedTime, digits)
}

const text = (tag: number, ascii: string): string => element(tag, hexOf(Buffer.from(ascii, 'latin1')))
