// The versions that a broker must know of the requests that are written here.

import { SystemicError } from '../../systemic-error.ts'
import type { Address } from './broker.ts'
import { fetchKey, fetchVersion } from './fetch-request.ts'
import { metadataKey, metadataVersion } from './metadata-request.ts'

const needed: readonly (readonly [apiKey: number, version: number])[] = [
  [fetchKey, fetchVersion],
  [metadataKey, metadataVersion],
]

/**
 * @param rangeOf which versions the broker knows of a request
 * @throws SystemicError where they are not among them
 */
export function checkVersions(
  { host, port }: Address,
  rangeOf: (apiKey: number) => { readonly minVersion: number; readonly maxVersion: number } | undefined,
): void {
  for (const [apiKey, version] of needed) {
    const range = rangeOf(apiKey)
    if (range === undefined || range.minVersion > version || range.maxVersion < version) {
      throw new SystemicError(`the broker ${host}:${port} cannot name topics by their ids: use Kafka 3.1 or newer`)
    }
  }
}
