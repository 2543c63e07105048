// Key and lifetime of a certificate as requests give them, with the field names of all clients.

import { X509Certificate } from 'node:crypto'
import { type Csr, checkCsr, keyTypes, type NewKey, refusePlace, rsaBits } from './csr.ts'
import type { CertificatesOptions } from './options.ts'

export interface KeyFields {
  readonly csr?: string
  readonly key_type?: string
  readonly rsa_bits?: number
  readonly key_bits?: number
}

export interface LifetimeFields {
  readonly ttl?: string
  readonly valid?: string
}

/**
 * Reads the key. Empty texts and 0 count as left out.
 *
 * @throws HttpError `malformed_request` for a refused CSR, an unknown kind of key, and sizes that are not allowed or contradict each other
 */
export async function readKey({ csr, key_type: type, rsa_bits: asRsa, key_bits: asKey }: KeyFields): Promise<Csr | NewKey> {
  if (csr !== undefined && csr !== '') return checkCsr(csr, '/body/csr')
  const keyType = keyTypes.find(known => known === (type || 'rsa').toLowerCase())
  if (keyType === undefined) refusePlace('/body/key_type', 'is not allowed: give rsa or ec')
  if (keyType === 'ec') return { type: 'ec' }
  if (asRsa && asKey && asRsa !== asKey) refusePlace('/body/key_bits', 'contradicts rsa_bits: give one of them')
  const bits = rsaBits.find(known => known === (asRsa || asKey || rsaBits[0]))
  if (bits === undefined) refusePlace(asRsa ? '/body/rsa_bits' : '/body/key_bits', `is not allowed: give ${rsaBits.join(', ')}`)
  return { type: 'rsa', bits }
}

/**
 * Reads the lifetime.
 *
 * @returns seconds
 * @throws HttpError `malformed_request` for anything but a duration, for two that differ, and for one that is too long
 */
export function readTtl(
  { ttl = '', valid = '' }: LifetimeFields,
  { ttlHours, ttlHoursMax }: Pick<CertificatesOptions, 'ttlHours' | 'ttlHoursMax'>,
): number {
  const asTtl = ttl === '' ? undefined : secondsOf(ttl, 's', '/body/ttl', ttlHoursMax)
  const asValid = valid === '' ? undefined : secondsOf(valid, 'h', '/body/valid', ttlHoursMax)
  if (asTtl !== undefined && asValid !== undefined && asTtl !== asValid) refusePlace('/body/valid', 'contradicts ttl: give one of them')
  return asTtl ?? asValid ?? ttlHours * 3600
}

function secondsOf(text: string, bareUnit: 'h' | 's', pointer: string, hoursMax: number): number {
  const seconds = parseDuration(text, bareUnit)
  if (seconds === undefined) refusePlace(pointer, 'is not a duration: give one such as 2400h, 90m or 30s')
  if (seconds > hoursMax * 3600) refusePlace(pointer, `is too long: give ${hoursMax}h at most`)
  return seconds
}

/** A new key like that of the certificate: of the same kind, and the same size or the next larger one. */
export function keyLike(certificate: string): NewKey {
  const { asymmetricKeyType, asymmetricKeyDetails } = new X509Certificate(certificate).publicKey
  if (asymmetricKeyType === 'ec') return { type: 'ec' }
  const { modulusLength = 0 } = asymmetricKeyDetails ?? {}
  return { type: 'rsa', bits: rsaBits.find(bits => bits >= modulusLength) ?? 4096 }
}

const secondsOfUnit: Readonly<Record<string, number>> = { h: 3600, m: 60, s: 1 }
const durationForm = /^(?:\d{1,9}(?:\.\d{1,9})?[hms])+$/

/**
 * Parses a duration as clients write it: `2400h`, `1h30m`, `90s`, or digits alone.
 *
 * @param bareUnit the unit of digits alone
 * @returns whole seconds, rounded down; undefined for other texts, and for less than a second
 */
export function parseDuration(text: string, bareUnit: 'h' | 's'): number | undefined {
  const withUnit = /^\d{1,9}$/.test(text) ? `${text}${bareUnit}` : text
  if (!durationForm.test(withUnit)) return undefined
  let seconds = 0
  for (const [, count, unit] of withUnit.matchAll(/([\d.]{1,19})([hms])/g)) seconds += Number(count) * secondsOfUnit[unit!]!
  return seconds < 1 ? undefined : Math.floor(seconds)
}
