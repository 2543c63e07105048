// Ajv as the Kafka client uses it, loaded by the first check. The client describes the options of each of its methods to it, and checks
// them only with its option `strict`.

import { createRequire } from 'node:module'
import type { Ajv, AnySchema, FuncKeywordDefinition, Options, ValidateFunction } from 'ajv'

export class Ajv2020 {
  private ajv: Ajv | undefined
  private readonly options: Options
  private readonly keywords: FuncKeywordDefinition[] = []

  constructor(options: Options) {
    this.options = options
  }

  addKeyword(keyword: FuncKeywordDefinition): void {
    this.keywords.push(keyword)
  }

  compile(schema: AnySchema): ValidateFunction {
    let compiled: ValidateFunction | undefined
    const check = (value: unknown): boolean => {
      compiled ??= this.loaded().compile(schema)
      const passed = compiled(value)
      check.errors = compiled.errors
      return passed
    }
    check.errors = undefined as ValidateFunction['errors']
    return check as ValidateFunction
  }

  errorsText(...given: Parameters<Ajv['errorsText']>): string {
    return this.loaded().errorsText(...given)
  }

  private loaded(): Ajv {
    if (this.ajv !== undefined) return this.ajv
    const require = createRequire(createRequire(import.meta.url).resolve('@platformatic/kafka'))
    const { Ajv2020: Loaded } = require('ajv/dist/2020.js') as { readonly Ajv2020: new (options: Options) => Ajv }
    this.ajv = new Loaded(this.options)
    for (const keyword of this.keywords) this.ajv.addKeyword(keyword)
    return this.ajv
  }
}
