// What is wrong with a message whose frame, schema or record cannot be read.

import type { MessageFault } from '../../source.ts'
import { noValue } from '../envelope-header.ts'

const hint = 'send what a serializer of Confluent for Avro makes, or set log.encoding to raw'

function frameFault(reason: string): MessageFault {
  return { rule: 'confluent-frame', reason, hint }
}

export const noMagic = frameFault('the value does not begin with the byte 0 and the id of a schema')
export const brokenRecord = frameFault('the value is no record of its schema: it is cut, or something is left behind it')
export const noText = frameFault('a text of the record is not UTF-8')
export const noPayload = frameFault('the payload of the record is null')

/** Without a record nothing is known of its subtopic, so that it is no subject's to filter it. */
export const tombstone: MessageFault = { rule: noValue.rule, reason: noValue.reason, hint: noValue.hint }

/** The subject is known. */
export const createdFault: MessageFault = {
  ...frameFault('created lies beyond 2^53 microseconds from 1970'),
  hint: 'give created in nanoseconds since 1970, or in the unit of its logical type',
  subjectKnown: true,
}

/** The registry has no such schema. */
export function unknownSchema(id: number): MessageFault {
  return {
    rule: 'schema-unknown',
    reason: `the schema registry has no schema ${id}`,
    hint: 'register the schema and replay the message, or point its producer to the registry of log.registry',
  }
}

/** The schema is there, and its messages cannot be read by it. */
export function unusableSchema(id: number, reason: string): MessageFault {
  return {
    rule: 'schema-unusable',
    reason: `by the schema ${id} no message can be read: ${reason}`,
    hint: 'use an Avro record with the fields channel, subtopic, publisher, protocol, created, content_type and payload; all but payload may be left out',
  }
}

/** A schema that it refers to is not in the registry. */
export function missingReference(id: number, name: string): MessageFault {
  return {
    ...unusableSchema(id, `the schema registry has no ${name}, to which it refers`),
    hint: 'restore in the registry what the schema refers to, and replay the message',
  }
}

/** @param what the user may not read: `it`, or the name of what it refers to */
export function forbiddenSchema(id: number, what: string): MessageFault {
  return {
    ...unusableSchema(id, `this user may not read ${what}`),
    hint: 'give the user of log.registry_username the right to read it in the registry, and replay the message',
  }
}
