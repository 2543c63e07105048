// The trucks of the use case `iot` of TSBS (github.com/timescale/tsbs, pkg/data/usecases/iot): its fields and tags, steps and ranges, and its chances of
// entries that are missing, late, or lack a value. Our own code, so the values are not those of TSBS, but behave as they do.

import type { Measurement, Random } from './measurement.ts'

/** A measurement without a time, and its number among all, of which some are never sent. */
export type TruckEntry = Omit<Measurement, 'timeUs'> & { readonly ordinal: number }

interface Walk {
  readonly name: string
  readonly unit?: string
  readonly from: number
  readonly to: number
  readonly decimals: number
  readonly start: (random: Random) => number
  readonly step: (random: Random, value: number) => number
}

const uniform = (low: number, high: number) => (random: Random) => low + random() * (high - low)
const walking =
  (size: number) =>
  (random: Random, value: number): number =>
    value + uniform(-size, size)(random)
/** Box and Muller's normal distribution. */
const normal = (random: Random): number => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random())

const formats = {
  readings: [
    { name: 'latitude', unit: 'lat', from: -90, to: 90, decimals: 5, start: uniform(0, 90), step: walking(0.005) },
    { name: 'longitude', unit: 'lon', from: -180, to: 180, decimals: 5, start: uniform(0, 180), step: walking(0.005) },
    { name: 'elevation', unit: 'm', from: 0, to: 5000, decimals: 0, start: uniform(0, 500), step: walking(10) },
    { name: 'velocity', from: 0, to: 100, decimals: 0, start: () => 0, step: walking(10) },
    { name: 'heading', from: 0, to: 360, decimals: 0, start: uniform(0, 360), step: walking(5) },
    { name: 'grade', from: 0, to: 100, decimals: 0, start: () => 0, step: walking(5) },
    { name: 'fuel_consumption', from: 0, to: 50, decimals: 1, start: () => 25, step: walking(5) },
  ],
  diagnostics: [
    // An empty tank is filled.
    {
      name: 'fuel_state',
      from: 0,
      to: 1,
      decimals: 1,
      start: () => 1,
      step: (random, value) => (value <= 0 ? 1 : value - 0.001 * random()),
    },
    {
      name: 'current_load',
      from: 0,
      to: 5000,
      decimals: 0,
      start: () => 0,
      step: (random, value) => (random() < 0.05 ? uniform(0, 5000)(random) : value),
    },
    { name: 'status', from: 0, to: 5, decimals: 0, start: () => 0, step: (random, value) => value + normal(random) },
  ],
} as const satisfies Readonly<Record<string, readonly Walk[]>>
type Format = keyof typeof formats

const fleets = ['East', 'West', 'North', 'South']
const drivers = ['Derek', 'Rodney', 'Albert', 'Andy', 'Seth', 'Trish']
const versions = ['v1.0', 'v1.5', 'v2.0', 'v2.3']
const models = [
  { model: 'F-150', load_capacity: 2000, fuel_capacity: 200, nominal_fuel_consumption: 15 },
  { model: 'G-2000', load_capacity: 5000, fuel_capacity: 300, nominal_fuel_consumption: 19 },
  { model: 'H-2', load_capacity: 1500, fuel_capacity: 150, nominal_fuel_consumption: 12 },
]

const batchEntries = 10
const chances = {
  batchMissing: 0.01,
  batchLate: 0.05,
  batchInserted: 0.5,
  missing: 0.1,
  late: 0.3,
  inserted: 0.5,
  noField: 0.1,
  noTag: 0.01,
}

interface Truck {
  readonly tags: Measurement['tags']
  readonly values: Readonly<Record<Format, number[]>>
}

/** Returns the next entry that is sent, without end: for each tick the readings of all trucks, and then their diagnostics. */
export function openTrucks(random: Random, count: number): () => TruckEntry {
  const trucks = new Map<number, Truck>()
  const late: TruckEntry[] = []
  const lateBatches: TruckEntry[][] = []
  let batch: TruckEntry[] = []
  let ordinals = 0

  function pick<One>(from: readonly One[]): One {
    return from[Math.floor(random() * from.length)]!
  }

  function truckOf(number: number): Truck {
    let truck = trucks.get(number)
    if (truck === undefined) {
      const tags = { name: `truck_${number}`, fleet: pick(fleets), driver: pick(drivers), device_version: pick(versions), ...pick(models) }
      const values = {
        readings: formats.readings.map(walk => walk.start(random)),
        diagnostics: formats.diagnostics.map(walk => walk.start()),
      }
      trucks.set(number, (truck = { tags, values }))
    }
    return truck
  }

  function measured(): TruckEntry {
    const ordinal = ordinals++
    const device = ordinal % count
    const format: Format = Math.floor(ordinal / count) % 2 === 0 ? 'readings' : 'diagnostics'
    const { tags, values } = truckOf(device)
    const walks: readonly Walk[] = formats[format]
    const fields = walks.map(({ name, unit, from, to, decimals, step }, at) => {
      values[format][at] = Math.min(to, Math.max(from, step(random, values[format][at]!)))
      return { name, ...(unit === undefined ? {} : { unit }), value: Number(values[format][at].toFixed(decimals)) }
    })
    return { ordinal, device, format, name: `truck_${device}`, tags, fields }
  }

  function withoutSome(entry: TruckEntry): TruckEntry {
    const field = random() < chances.noField ? pick(entry.fields) : undefined
    const tag = random() < chances.noTag ? pick(Object.keys(entry.tags)) : undefined
    return {
      ...entry,
      fields: entry.fields.map(one => (one === field ? { ...one, value: null } : one)),
      tags: tag === undefined ? entry.tags : { ...entry.tags, [tag]: null },
    }
  }

  /** The chances are those of its first entries, of which some become no part of it. */
  function nextBatch(): TruckEntry[] {
    const entries: TruckEntry[] = []
    let insertable = late.length
    for (let nth = 0; entries.length < batchEntries; nth++) {
      const isChanced = nth < batchEntries
      const isInserted = isChanced && insertable > 0 && random() < chances.inserted
      if (isInserted) insertable--
      const entry = isInserted ? late.shift()! : measured()
      if (isChanced && random() < chances.missing) continue
      if (isChanced && random() < chances.late) late.push(entry)
      else entries.push(withoutSome(entry))
    }
    return entries
  }

  return () => {
    while (batch.length === 0) {
      if (random() < chances.batchMissing) for (let skipped = 0; skipped < batchEntries; skipped++) measured()
      else {
        const isLate = random() < chances.batchLate
        if (lateBatches.length > 0 && random() < chances.batchInserted) batch = lateBatches.shift()!
        else if (isLate) lateBatches.push(nextBatch())
        else batch = nextBatch()
      }
    }
    return batch.shift()!
  }
}
