// The ETag of a page: a hash of the sent bytes, so that each coding has its own.
//
// XXH3 takes 1 µs for a page of 22 KB, SHA-256 13 µs. Devices choose what is in a page, and could give two pages the same XXH3. So it has a secret key, and is
// shown only through SHA-256, because it would reveal its key.

import { hash, hkdfSync } from 'node:crypto'
import { createRequire } from 'node:module'
import type { xxh3 } from '@node-rs/xxhash'

/**
 * Returns the strong ETag (RFC 9110 §8.8.3) of a page.
 *
 * @param link the header `Link`, or '': only JSON contains the next cursor in its body
 */
export type EtagOf = (body: string | Buffer, link: string) => string

type Digest = (bytes: string | Buffer, key: Uint8Array) => bigint | string

const require = createRequire(import.meta.url)

/** The add-on is prebuilt for common systems. */
function load(): Digest {
  try {
    return (require('@node-rs/xxhash') as { xxh3: typeof xxh3 }).xxh3.xxh128WithSecret
  } catch {
    return bytes => hash('sha256', bytes, 'base64url')
  }
}

const digest = load()

/** XXH3 takes at least 136. */
const keyBytes = 192

/** @param key 32 bytes, the same in every process that answers the same readers */
export function openEtags(key: Uint8Array): EtagOf {
  const digestKey = new Uint8Array(hkdfSync('sha256', key, new Uint8Array(0), 'etags', keyBytes))
  return (body, link) => `"${hash('sha256', `${digest(body, digestKey)} ${digest(link, digestKey)}`, 'base64url')}"`
}
