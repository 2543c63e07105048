// What a device of a load measures, and the random numbers that its values come from.

/** What a device measured at one time. */
export interface Measurement {
  readonly device: number
  /** The last part of the subtopic: the format of a document. */
  readonly format: string
  /** Of the device, which begins the names of its series. */
  readonly name: string
  /** Only documents have them. */
  readonly tags: Readonly<Record<string, string | number | null>>
  readonly timeUs: number
  readonly fields: readonly Field[]
}

export interface Field {
  readonly name: string
  readonly unit?: string
  /** Null if the device had none: documents say so, and packs leave it out. */
  readonly value: number | null
  /** Relative to the time of the measurement. */
  readonly seconds?: number
}

/** From 0 to below 1. */
export type Random = () => number

const packRecords = 12

/** One value, or a voltage and the currents of the last seconds, as in RFC 8428 §5.1.2. */
export function fleetMeasurement(device: number, timeUs: number, isPack: boolean, random: Random): Measurement {
  const tenths = 200 + Math.floor(random() * 97)
  const currents = Array.from({ length: packRecords - 1 }, (_, at) => ({
    name: 'current',
    unit: 'A',
    seconds: at + 2 - packRecords,
    value: (tenths + at) / 10,
  }))
  const fields = isPack
    ? [{ name: 'voltage', unit: 'V', value: (tenths + 2000) / 10 }, ...currents]
    : [{ name: 'temperature', unit: 'Cel', value: tenths / 10 }]
  return { device, format: 'fleet', name: `urn:dev:ow:10e2073a0108${device}`, tags: {}, timeUs, fields }
}

/** Mulberry32: short, quick, and the same everywhere. */
export function openRandom(seed: number): Random {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}
