// The ETag of a page: a hash of the sent bytes, so that each coding has its own.
//
// XXH3 takes 1 µs for a page of 22 KB, SHA-256 13 µs. Its secret comes from the reader's key: without it, devices could make two pages that have the same ETag.

import { hkdfSync } from 'node:crypto'
import { xxh3 } from '@node-rs/xxhash'

/**
 * Returns the strong ETag (RFC 9110 §8.8.3) of a page.
 *
 * @param link the header `Link`, or '': only JSON contains the next cursor in its body
 */
export type EtagOf = (body: string | Buffer, link: string) => string

/** XXH3 derives a secret of this length from a seed; it needs at least 136. */
const secretBytes = 192

/** @param key 32 bytes, the same in every process that answers the same readers */
export function openEtags(key: Uint8Array): EtagOf {
  const secret = new Uint8Array(hkdfSync('sha256', key, new Uint8Array(0), 'etag secret', secretBytes))
  const hash = (bytes: string | Buffer): string => xxh3.xxh128WithSecret(bytes, secret).toString(36)
  return (body, link) => `"${hash(body)}${link === '' ? '' : `-${hash(link)}`}"`
}
