// Faults of messages whose frame, schema or record cannot be decoded.

import { createdFault, type MessageFault } from '../../source.ts'
import { noValue } from '../records/envelope-header.ts'

const hint = "send messages in the format of Confluent's Avro or JSON Schema serializers, or set log.encoding to raw"

function frameFault(reason: string): MessageFault {
  return { rule: 'confluent-frame', reason, hint }
}

export const noMagic = frameFault('the value does not start with the byte 0 and a schema id')
export const brokenRecord = frameFault('the value is not a record of its schema: it is cut off, or followed by extra bytes')
export const noText = frameFault('a text of the record is not UTF-8')
export const noPayload = frameFault('the payload of the record is null')

/** Without a record the subtopic is unknown, so no subject can filter the message. */
export const tombstone: MessageFault = { rule: noValue.rule, reason: noValue.reason, hint: noValue.hint }

export const farCreated = createdFault(
  'the field created of the record',
  'set created in nanoseconds since 1970, or in the unit of its logical type',
)

/** The registry has no such schema. */
export function unknownSchema(id: number): MessageFault {
  return {
    rule: 'schema-unknown',
    reason: `the schema registry has no schema ${id}`,
    hint: 'register the schema and replay the message, or configure its producer with the registry in log.registry',
  }
}

/** The schema exists, but its messages cannot be decoded. */
export function unusableSchema(id: number, reason: string): MessageFault {
  return {
    rule: 'schema-unusable',
    reason: `messages of the schema ${id} cannot be decoded: ${reason}`,
    hint: 'use JSON Schema, or an Avro record with the fields channel, subtopic, publisher, protocol, created, content_type and payload; all but payload are optional',
  }
}

/** A referenced schema is not in the registry. */
export function missingReference(id: number, name: string): MessageFault {
  return {
    ...unusableSchema(id, `the schema registry does not have ${name}, which it references`),
    hint: 'restore the referenced schema in the registry, and replay the message',
  }
}

/** @param what the user may not read: `it`, or the name of the referenced schema */
export function forbiddenSchema(id: number, what: string): MessageFault {
  return {
    ...unusableSchema(id, `this user is not authorized to read ${what}`),
    hint: 'grant the user of log.registry_username read access in the registry, and replay the message',
  }
}
