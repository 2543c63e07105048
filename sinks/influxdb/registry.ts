// Points of the registry: what the store knows beside its rows, in a bucket that nothing is deleted from.

import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import type { Connection } from './connection.ts'
import { fluxFrom, fluxOf } from './flux.ts'
import { readPoints, type StoredPoint } from './stored-points.ts'

const compress = promisify(gzip)

/** Of every point but those of `replayed`: what is written again is written over. One second after the beginning of 1970. */
export const registryNs = 1_000_000_000n

export async function writeRegistry(connection: Connection, lines: readonly string[], signal?: AbortSignal): Promise<void> {
  await connection.write(connection.registryBucket, await compress(`${lines.join('\n')}\n`), signal)
}

/** Writes a point that nothing can be wrong with, nor is read by anybody: whether points are taken at all. */
export function writeProof(connection: Connection, signal: AbortSignal): Promise<void> {
  return writeRegistry(connection, [`proofs taken=true ${registryNs}`], signal)
}

export function readRegistry(connection: Connection, measurements: readonly string[], signal?: AbortSignal): Promise<StoredPoint[]> {
  const source = fluxFrom(connection.registryBucket, { startNs: registryNs, stopNs: registryNs + 1n })
  return readPoints(connection, source + fluxOf(measurements), signal)
}

export function textField(point: StoredPoint, key: string): string {
  const value = point.fields.get(key)
  return typeof value === 'string' ? value : ''
}
