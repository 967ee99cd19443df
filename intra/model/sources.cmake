# The model: sources of causeway_intra that live in intra/model.
