#include "model/rename.h"

#include <gtest/gtest.h>

namespace bertie {
namespace {

struct Row {
  const char *type, *from, *to;
  bool transposed = false, squeezed = false;
};

// What transformers' own conversion scripts make of these names.
const Row kRows[] = {
    {"bert", "bert/embeddings/word_embeddings", "bert.embeddings.word_embeddings.weight"},
    {"bert", "bert/embeddings/position_embeddings", "bert.embeddings.position_embeddings.weight"},
    {"bert", "bert/embeddings/token_type_embeddings", "bert.embeddings.token_type_embeddings.weight"},
    {"bert", "bert/embeddings/LayerNorm/gamma", "bert.embeddings.LayerNorm.weight"},
    {"bert", "bert/embeddings/LayerNorm/beta", "bert.embeddings.LayerNorm.bias"},
    {"bert", "bert/encoder/layer_0/attention/self/query/kernel",
     "bert.encoder.layer.0.attention.self.query.weight", true},
    {"bert", "bert/encoder/layer_11/attention/self/value/bias",
     "bert.encoder.layer.11.attention.self.value.bias"},
    {"bert", "bert/encoder/layer_3/attention/output/dense/kernel",
     "bert.encoder.layer.3.attention.output.dense.weight", true},
    {"bert", "bert/encoder/layer_3/attention/output/LayerNorm/beta",
     "bert.encoder.layer.3.attention.output.LayerNorm.bias"},
    {"bert", "bert/encoder/layer_3/intermediate/dense/kernel",
     "bert.encoder.layer.3.intermediate.dense.weight", true},
    {"bert", "bert/encoder/layer_3/output/dense/bias", "bert.encoder.layer.3.output.dense.bias"},
    {"bert", "bert/pooler/dense/kernel:0", "bert.pooler.dense.weight", true},
    {"bert", "cls/predictions/output_bias", "cls.predictions.bias"},
    {"bert", "cls/predictions/transform/dense/kernel", "cls.predictions.transform.dense.weight", true},
    {"bert", "cls/predictions/transform/LayerNorm/gamma", "cls.predictions.transform.LayerNorm.weight"},
    {"bert", "cls/seq_relationship/output_weights", "cls.seq_relationship.weight"},
    {"bert", "cls/seq_relationship/output_bias", "cls.seq_relationship.bias"},
    {"bert", "output_weights", "classifier.weight"},
    {"bert", "output_bias", "classifier.bias"},
    {"bert", "cls/squad/output_weights", "qa_outputs.weight"},
    {"bert", "cls/squad/output_bias", "qa_outputs.bias"},

    {"albert", "bert/embeddings/word_embeddings", "albert.embeddings.word_embeddings.weight"},
    {"albert", "bert/embeddings/LayerNorm/gamma", "albert.embeddings.LayerNorm.weight"},
    {"albert", "bert/encoder/embedding_hidden_mapping_in/kernel",
     "albert.encoder.embedding_hidden_mapping_in.weight", true},
    {"albert", "bert/encoder/transformer/group_0/inner_group_0/attention_1/self/key/kernel",
     "albert.encoder.albert_layer_groups.0.albert_layers.0.attention.key.weight", true},
    {"albert", "bert/encoder/transformer/group_0/inner_group_0/attention_1/output/dense/bias",
     "albert.encoder.albert_layer_groups.0.albert_layers.0.attention.dense.bias"},
    {"albert", "bert/encoder/transformer/group_0/inner_group_0/LayerNorm/gamma",
     "albert.encoder.albert_layer_groups.0.albert_layers.0.attention.LayerNorm.weight"},
    {"albert", "bert/encoder/transformer/group_2/inner_group_1/LayerNorm_1/beta",
     "albert.encoder.albert_layer_groups.2.albert_layers.1.full_layer_layer_norm.bias"},
    {"albert", "bert/encoder/transformer/group_0/inner_group_0/ffn_1/intermediate/dense/kernel",
     "albert.encoder.albert_layer_groups.0.albert_layers.0.ffn.weight", true},
    {"albert", "bert/encoder/transformer/group_0/inner_group_0/ffn_1/intermediate/output/dense/bias",
     "albert.encoder.albert_layer_groups.0.albert_layers.0.ffn_output.bias"},
    {"albert", "module/bert/pooler/dense/bias", "albert.pooler.bias"},
    {"albert", "cls/predictions/transform/LayerNorm/beta", "predictions.LayerNorm.bias"},
    {"albert", "cls/predictions/transform/dense/kernel", "predictions.dense.weight", true},
    {"albert", "cls/predictions/output_bias", "predictions.bias"},
    {"albert", "cls/seq_relationship/output_weights", "sop_classifier.classifier.weight"},
    {"albert", "output_bias", "classifier.bias"},

    {"gpt2", "model/wte", "transformer.wte.weight", false, true},
    {"gpt2", "model/wpe", "transformer.wpe.weight", false, true},
    {"gpt2", "model/h0/attn/c_attn/w", "transformer.h.0.attn.c_attn.weight", false, true},
    {"gpt2", "model/h11/mlp/c_fc/b", "transformer.h.11.mlp.c_fc.bias", false, true},
    {"gpt2", "model/h1/ln_1/g", "transformer.h.1.ln_1.weight", false, true},
    {"gpt2", "model/h1/ln_2/b", "transformer.h.1.ln_2.bias", false, true},
    {"gpt2", "model/ln_f/g", "transformer.ln_f.weight", false, true},

    {"bert", "bert.embeddings.LayerNorm.gamma", "bert.embeddings.LayerNorm.weight"},
    {"bert", "module.bert.encoder.layer.0.output.LayerNorm.beta",
     "bert.encoder.layer.0.output.LayerNorm.bias"},
    {"gpt2", "h.0.attn.c_attn.weight", "transformer.h.0.attn.c_attn.weight"},
    {"gpt2", "wte.weight", "transformer.wte.weight"},
    {"gpt2", "module.ln_f.bias", "transformer.ln_f.bias"},
    // Today's names stay.
    {"bert", "bert.encoder.layer.0.output.LayerNorm.bias", "bert.encoder.layer.0.output.LayerNorm.bias"},
    {"bert", "embeddings.word_embeddings.weight", "embeddings.word_embeddings.weight"},
    {"gpt2", "transformer.h.0.ln_1.bias", "transformer.h.0.ln_1.bias"},
    {"gpt2", "lm_head.weight", "lm_head.weight"},
    {"roberta", "lm_head.decoder.weight", "lm_head.decoder.weight"},
    {"distilbert", "distilbert.transformer.layer.0.attention.q_lin.weight",
     "distilbert.transformer.layer.0.attention.q_lin.weight"},
};

TEST(Rename, OldNamesBecomeTodays) {
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.from);
    const Renamed renamed = rename_tensor(row.from, row.type);
    EXPECT_EQ(renamed.name, row.to);
    EXPECT_EQ(renamed.transposed, row.transposed);
    EXPECT_EQ(renamed.squeezed, row.squeezed);
    EXPECT_EQ(renamed.dropped, "");
  }
}

TEST(Rename, TodaysNamesStay) {
  for (const Row& row : kRows) {
    const Renamed again = rename_tensor(row.to, row.type);
    EXPECT_EQ(again.name, row.to);
    EXPECT_FALSE(again.transposed || again.squeezed);
  }
}

TEST(Rename, StateAndBuffersAreLeftOut) {
  for (const char* name :
       {"global_step", "bert/encoder/layer_0/output/dense/kernel/adam_m", "bert/pooler/dense/bias/adam_v",
        "bert/pooler/dense/bias/AdamWeightDecayOptimizer_1"})
    EXPECT_EQ(rename_tensor(name, "bert").dropped, "the optimizer's") << name;
  for (const auto& [name, type] : {std::pair("bert.embeddings.position_ids", "bert"),
                                   {"embeddings.position_ids", "bert"},
                                   {"h.0.attn.bias", "gpt2"},
                                   {"transformer.h.11.attn.masked_bias", "gpt2"}})
    EXPECT_EQ(rename_tensor(name, type).dropped, "a buffer that the model makes itself") << name;
  EXPECT_EQ(rename_tensor("transformer.h.0.attn.c_attn.bias", "gpt2").dropped, "");
}

}  // namespace
}  // namespace bertie
