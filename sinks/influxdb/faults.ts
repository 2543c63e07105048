// Why a message is refused before anything of it is sent: what InfluxDB would drop, cut or alter.

import type { Rejection } from '../sink.ts'
import { seriesBytesMax, stringBytesMax } from './line-protocol.ts'

export type Fault = Pick<Rejection, 'rule' | 'reason' | 'hint'>

export const faults = {
  tag: (name: string): Fault => ({
    rule: 'store-refused',
    reason: `the ${name} ends in a backslash, or holds a line end, a NUL or half a surrogate pair, which no tag of InfluxDB keeps`,
    hint: `send a ${name} without them`,
  }),
  text: (what: string, value: string): Fault =>
    value.length > stringBytesMax / 3
      ? faults.length(what)
      : {
          rule: 'store-refused',
          reason: `${what} holds a NUL or half a surrogate pair, which InfluxDB would not give back`,
          hint: 'send text without them',
        },
  length: (what: string): Fault => ({
    rule: 'store-refused',
    reason: `${what} has more than ${stringBytesMax} bytes, the most that a field of InfluxDB holds`,
    hint: 'send it in pieces',
  }),
  time: (): Fault => ({
    rule: 'store-refused',
    reason: 'the time lies before 1684 or after 2255, and beyond a little more InfluxDB has no times',
    hint: "see the device's clock",
  }),
  key: (key: string): Fault => ({
    rule: 'reserved-key',
    reason: `the key ${JSON.stringify(key.slice(0, 100))} cannot be a field of InfluxDB: it is one of its own or of the tags' names, or is empty, begins with "/", ends in a backslash, or holds a line end, a NUL, half a surrogate pair, or a backslash before a comma, an equals sign or a space`,
    hint: 'rename the key',
  }),
  series: (): Fault => ({
    rule: 'identifier-length',
    reason: `measurement, tags and the longest key have more than ${seriesBytesMax} bytes together, the most that a series of InfluxDB has`,
    hint: 'use shorter ids, names, units and keys',
  }),
  identifiers: (what: string, bytes: number, bytesMax: number): Fault => ({
    rule: 'identifier-length',
    reason: `${what} ${bytes} bytes, and ${bytesMax} are kept`,
    hint: 'use shorter ids and subtopics',
  }),
}
