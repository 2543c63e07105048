// Loads the Kafka client when it is first needed.

import { createRequire } from 'node:module'
import type * as client from '@platformatic/kafka'
import type { Ajv, AnySchema, ValidateFunction } from 'ajv'

export type KafkaClient = typeof client

let loaded: KafkaClient | undefined

/**
 * The client. While it is loaded it compiles a check for the options of each of its methods, which takes two thirds of 0.4 s of CPU in every
 * thread, and none of them runs without its option `strict`: each is compiled by its first call instead. Loading is synchronous, so no
 * other user of Ajv is affected.
 */
export function loadClient(): KafkaClient {
  if (loaded !== undefined) return loaded
  const require = createRequire(import.meta.url)
  const core = createRequire(require.resolve('@platformatic/kafka'))('ajv/dist/core.js') as {
    readonly default: { readonly prototype: Ajv }
  }
  const { prototype } = core.default
  // oxlint-disable-next-line typescript/unbound-method -- called with the caller's `this` below
  const compile = prototype.compile as (this: Ajv, schema: AnySchema) => ValidateFunction
  prototype.compile = function compileLater(this: Ajv, schema: AnySchema) {
    let compiled: ValidateFunction | undefined
    const check = (value: unknown): boolean => {
      compiled ??= compile.call(this, schema)
      const passed = compiled(value)
      check.errors = compiled.errors
      return passed
    }
    check.errors = undefined as ValidateFunction['errors']
    return check as ValidateFunction
  } as Ajv['compile']
  try {
    loaded = require('@platformatic/kafka') as KafkaClient
  } finally {
    prototype.compile = compile as Ajv['compile']
  }
  return loaded
}
