// What a request says of a certificate's key and lifetime, in the words of all clients.

import { X509Certificate } from 'node:crypto'
import { type Csr, checkCsr, keyTypes, type NewKey, refusePlace, rsaBits } from './csr.ts'
import { parseDuration } from './durations.ts'
import type { CertificatesOptions } from './options.ts'

export interface KeyWords {
  readonly csr?: string
  readonly key_type?: string
  readonly rsa_bits?: number
  readonly key_bits?: number
}

export interface LifetimeWords {
  readonly ttl?: string
  readonly valid?: string
}

/**
 * What is empty, or 0, is not given.
 *
 * @throws HttpError `malformed_request` for a CSR that is refused, an unknown kind of key, and bits that contradict each other or are none
 */
export async function readKey({ csr, key_type: type, rsa_bits: asRsa, key_bits: asKey }: KeyWords): Promise<Csr | NewKey> {
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
 * @returns seconds
 * @throws HttpError `malformed_request` for what is no duration, for two that differ, and for more than may be asked for
 */
export function readTtl({ ttl = '', valid = '' }: LifetimeWords, { ttlHours, ttlHoursMax }: CertificatesOptions): number {
  const asTtl = ttl === '' ? undefined : secondsOf(ttl, 's', '/body/ttl', ttlHoursMax)
  const asValid = valid === '' ? undefined : secondsOf(valid, 'h', '/body/valid', ttlHoursMax)
  if (asTtl !== undefined && asValid !== undefined && asTtl !== asValid) refusePlace('/body/valid', 'contradicts ttl: give one of them')
  return asTtl ?? asValid ?? ttlHours * 3600
}

function secondsOf(text: string, bareUnit: 'h' | 's', pointer: string, hoursMax: number): number {
  const seconds = parseDuration(text, bareUnit)
  if (seconds === undefined) refusePlace(pointer, 'is no duration: give one such as 2400h, 90m or 30s')
  if (seconds > hoursMax * 3600) refusePlace(pointer, `is too long: give ${hoursMax}h at most`)
  return seconds
}

/** A key like that of a certificate: of its kind, and of its size or the next larger one. */
export function keyLike(certificate: string): NewKey {
  const { asymmetricKeyType, asymmetricKeyDetails } = new X509Certificate(certificate).publicKey
  if (asymmetricKeyType === 'ec') return { type: 'ec' }
  const { modulusLength = 0 } = asymmetricKeyDetails ?? {}
  return { type: 'rsa', bits: rsaBits.find(bits => bits >= modulusLength) ?? 4096 }
}
